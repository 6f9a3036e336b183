"""What people do with the passages of a document: edit, exclude, merge, cut, add, remove, restore, undo.

Each verb names the version that the person saw; when the passage has moved on the answer is a plain
`Conflict` (chunk_changed). Only the searchable revision and one that waits for review can be changed,
and only while no other revision of the document is being made: what it would publish does not hold
the change. Rows come from `knowledge/access.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.utils import timezone

from knowledge import lifecycle
from knowledge.chunks import history, shaping, writing
from knowledge.chunks.history import PassageState
from knowledge.ingestion import store
from knowledge.ingestion.kept import parsed
from knowledge.models import Chunk, ChunkVersion, Document, Revision
from knowledge.questions import reshaping
from knowledge.text import clean
from portal.gateway.embedding import counter_for
from portal.kernel import audit, events
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.models import new_uid
from portal.kernel.principal import Principal

Verb = ChunkVersion.Verb
# Tokens of the longest passage that a person may make; what searches match stays below the model's own cap.
MOST_TOKENS = 2_000
MOST_CHARS = 40_000


@dataclass(frozen=True, slots=True)
class Change:
    """What an act did: the id that an undo names, and the passages it changed, the first one first."""

    uid: str
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One passage (None: a new one behind `after`) and the state that it shall have."""

    row: Chunk | None
    state: PassageState
    after: Chunk | None = None


def edit(principal: Principal, passage: Chunk, text: str, *, version: int) -> Change | None:
    """Give a passage another text; None when it reads so already."""
    state = _opened(passage, version)
    text = _usable(passage.revision, text)
    if text == state.text:
        return None
    return _perform(
        principal,
        passage.revision,
        Verb.EDIT,
        [Step(passage, shaping.edited(state, text, writing.cutter_of(passage.revision)))],
    )


def edit_leaf(principal: Principal, leaf: Chunk, text: str, *, version: int) -> Change | None:
    """Change what one leaf says, in its passage too; `version` is the passage's. None when nothing changes."""
    passage = _passage_of(leaf)
    state = _opened(passage, version)
    index = _index(passage, leaf)
    text = clean(text).strip("\n")
    if not text.strip():
        raise Invalid("Write some text, or remove it.", code="chunk_empty")
    if text == shaping.own_text(state, index):
        return None
    changed = shaping.leaf_edited(state, index, text, writing.cutter_of(passage.revision))
    _usable(passage.revision, changed.text)
    return _perform(principal, passage.revision, Verb.EDIT, [Step(passage, changed)])


def set_enabled(principal: Principal, chunk: Chunk, enabled: bool, *, version: int) -> Change | None:
    """Let searches find a passage or one of its leaves, or not; `version` is the passage's."""
    passage = _passage_of(chunk)
    state = _opened(passage, version)
    if chunk.enabled == enabled:
        return None
    if chunk.pk == passage.pk:
        changed = replace(state, enabled=enabled)
    else:
        index = _index(passage, chunk)
        leaves = [replace(leaf, enabled=enabled) if i == index else leaf for i, leaf in enumerate(state.leaves)]
        changed = replace(state, leaves=tuple(leaves))
    verb = Verb.ENABLE if enabled else Verb.DISABLE
    return _perform(principal, passage.revision, verb, [Step(passage, changed)])


def merge(principal: Principal, passage: Chunk, *, version: int, next_version: int | None = None) -> Change:
    """Make one passage of this and the next one."""
    state = _opened(passage, version)
    following = (
        Chunk.objects.filter(revision_id=passage.revision_id, level=Chunk.Level.PASSAGE, ordinal=passage.ordinal + 1)
        .defer("lexemes")
        .first()
    )
    if following is None:
        raise Invalid("There is no passage after this one.", code="nothing_to_merge")
    if next_version is not None and following.version != next_version:
        raise _changed()
    following.revision = passage.revision
    other = history.state_of(following)
    whole = shaping.merged(state, other, _parsed_text(passage.revision), writing.cutter_of(passage.revision))
    _usable(passage.revision, whole.text)

    def still_neighbours(rows: dict[int, Chunk]) -> bool:
        return rows[following.pk].ordinal == rows[passage.pk].ordinal + 1

    steps = [Step(passage, whole), Step(following, replace(other, gone=True))]
    return _perform(principal, passage.revision, Verb.MERGE, steps, still_neighbours)


def cut(principal: Principal, passage: Chunk, position: int, *, version: int) -> Change:
    """Make two passages of one, the second from `position` on (characters of its text, counted from 0)."""
    state = _opened(passage, version)
    first, second = shaping.cut_in_two(
        state, position, _parsed_text(passage.revision), writing.cutter_of(passage.revision)
    )
    steps = [Step(passage, first), Step(None, second, after=passage)]
    return _perform(principal, passage.revision, Verb.CUT, steps)


def add(principal: Principal, revision: Revision, text: str, *, after: Chunk | None = None) -> Change:
    """Write a passage of one's own behind another one (None: before all others)."""
    _editable(revision)
    text = _usable(revision, text)
    beside = history.state_of(after) if after is not None else None
    state = shaping.written(text, beside, writing.cutter_of(revision))
    return _perform(principal, revision, Verb.ADD, [Step(None, state, after=after)])


def remove(principal: Principal, passage: Chunk, *, version: int) -> Change:
    """Take a passage out of the document; its citations still open, and it can be restored."""
    state = _opened(passage, version)
    return _perform(principal, passage.revision, Verb.DELETE, [Step(passage, replace(state, gone=True))])


def restore(principal: Principal, passage: Chunk, number: int, *, version: int) -> Change | None:
    """Bring back an earlier version of a passage, removed ones too; None when it is that already."""
    _editable(passage.revision)
    if passage.version != version:
        raise _changed()
    row = passage.versions.filter(number=number).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    now = history.state_of(passage)
    wanted = replace(history.state_at(row), gone=False)
    if not now.gone:
        wanted = replace(wanted, ordinal=now.ordinal)
        if wanted == now:
            return None
    return _perform(principal, passage.revision, Verb.RESTORE, [Step(passage, wanted)])


def undo(principal: Principal, revision: Revision, change: str) -> Change:
    """Take back one act, as long as nothing has changed what it made. An undo can be undone."""
    _editable(revision)
    rows = history.of_change(revision, change)
    if not rows:
        raise NotFound("Not found, or you don't have access.")
    steps = []
    for row in rows:
        if row.chunk.version != row.number:
            raise _changed()
        before = row.chunk.versions.filter(number=row.number - 1).first()
        state = history.state_at(before) if before else replace(history.state_at(row), gone=True)
        steps.append(Step(row.chunk, state))
    # The passages that stay come first, so that the answer names what the person looks at.
    steps.sort(key=lambda step: step.state.gone)
    return _perform(principal, revision, Verb.UNDO, steps)


# -- the one way in ---------------------------------------------------------------------------------


def _perform(
    principal: Principal,
    revision: Revision,
    verb: str,
    steps: Sequence[Step],
    holds: Callable[[dict[int, Chunk]], bool] = lambda rows: True,
) -> Change:
    """Embed what is new, then write all steps in one transaction: nothing is ever visible by half."""
    vectors = writing.vectors_for(principal, revision, [step.state for step in steps if _cut_anew(step)])
    change = new_uid()
    with transaction.atomic():
        document = Document.objects.select_for_update().get(pk=revision.document_id)
        # An approval waits for this lock, so no worker embeds leaves while they are exchanged.
        if Revision.objects.select_for_update().get(pk=revision.pk).status != revision.status:
            raise _changed()
        _editable(revision)
        rows = _locked(steps)
        if not holds(rows):
            raise _changed()
        counted = (
            document.active_revision_id == revision.pk
            and revision.status == Revision.Status.INDEXED
            and document.enabled
            and document.deleted_at is None
        )
        chunks = tuple(_step(principal, revision, verb, change, step, vectors, counted) for step in steps)
        _with_questions(steps, chunks)
        _recount(revision)
        Document.objects.filter(pk=document.pk).update(updated_at=timezone.now())
        audit.record(
            principal,
            f"chunk.{verb}",
            document,
            base_ids=[document.base_id],
            revision=revision.number,
            chunks=list(chunks),
            change=change,
        )
        lifecycle.touch(document.base_id)
        events.publish(f"base:{revision.document.base.uid}", {"type": "document.changed", "doc": document.uid})
    return Change(change, chunks)


def _cut_anew(step: Step) -> bool:
    """Whether the step writes leaves: switching and removing need no model, not even one that is there."""
    if step.state.gone:
        return False
    if step.row is None or step.row.level == Chunk.Level.GONE:
        return True
    return [leaf.text for leaf in step.state.leaves] != [leaf.text for leaf in history.leaves_of(step.row)]


def _locked(steps: Sequence[Step]) -> dict[int, Chunk]:
    """The rows of the steps and their neighbours, locked; `Conflict` when any has moved on."""
    seen = {step.row.pk: step.row.version for step in steps if step.row is not None}
    anchors = [step.after.pk for step in steps if step.after is not None]
    locked = Chunk.objects.select_for_update().filter(pk__in=[*seen, *anchors]).defer("lexemes").order_by("pk")
    rows = {row.pk: row for row in locked}
    if any(pk not in rows or rows[pk].version != version for pk, version in seen.items()):
        raise _changed()
    if any(pk not in rows or rows[pk].level != Chunk.Level.PASSAGE for pk in anchors):
        raise _changed()
    return rows


def _step(
    principal: Principal,
    revision: Revision,
    verb: str,
    change: str,
    step: Step,
    vectors: dict[str, writing.Vector],
    counted: bool,
) -> int:
    row, place = step.row, 0
    if row is not None:
        row = Chunk.objects.defer("lexemes").get(pk=row.pk)
    elif step.after is not None:
        place = Chunk.objects.get(pk=step.after.pk).ordinal + 1
    counter = counter_for(revision.document.base.embedding)
    row, state = writing.bring(revision, row, step.state, vectors, place=place, counter=counter, counted=counted)
    history.record(row, state, verb, change, principal.user_id)
    return row.pk


def _with_questions(steps: Sequence[Step], chunks: Sequence[int]) -> None:
    """Let the questions follow an act in which passages become one, or one becomes several."""
    passage = Chunk.Level.PASSAGE
    kept = [step.row.pk for step in steps if step.row and step.row.level == passage and not step.state.gone]
    if len(kept) != 1 or len(steps) == 1:
        return
    reshaping.follow(
        kept[0],
        gone=[step.row.pk for step in steps if step.row and step.row.level == passage and step.state.gone],
        back=[step.row.pk for step in steps if step.row and step.row.level != passage and not step.state.gone],
        fresh=[pk for step, pk in zip(steps, chunks, strict=True) if step.row is None],
        seen={step.row.pk: step.row.version for step in steps if step.row},
    )


def _recount(revision: Revision) -> None:
    leaves, tokens = store.count_leaves(revision.pk)
    Revision.objects.filter(pk=revision.pk).update(chunk_count=leaves, token_count=tokens)


# -- what every verb asks first -----------------------------------------------------------------------


def _editable(revision: Revision) -> None:
    """Raise `Conflict` unless this revision may be changed by hand now."""
    status, active = Revision.objects.values_list("status", "document__active_revision_id").get(pk=revision.pk)
    if status == Revision.Status.REVIEW:
        return
    if status != Revision.Status.INDEXED or active != revision.pk:
        raise Conflict(
            "Only the current version of a document, or one that waits for review, can be changed.", code="not_current"
        )
    others = Revision.objects.filter(document_id=revision.document_id)
    if others.filter(status__in=[*lifecycle.OPEN, Revision.Status.REVIEW]).exists():
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=revision.document.name,
        )


def _opened(passage: Chunk, version: int) -> PassageState:
    _editable(passage.revision)
    if passage.level != Chunk.Level.PASSAGE or passage.version != version:
        raise _changed()
    return history.state_of(passage)


def _changed() -> Conflict:
    return Conflict("Somebody has changed this passage meanwhile; look at it again.", code="chunk_changed")


def _passage_of(chunk: Chunk) -> Chunk:
    if chunk.level != Chunk.Level.LEAF or chunk.parent_id is None:
        return chunk
    passage = Chunk.objects.defer("lexemes").get(pk=chunk.parent_id)
    passage.revision = chunk.revision
    return passage


def _index(passage: Chunk, leaf: Chunk) -> int:
    ids = [row.pk for row in history.leaves_of(passage)]
    if leaf.pk not in ids:
        raise _changed()
    return ids.index(leaf.pk)


def _usable(revision: Revision, text: str) -> str:
    """The text as it is stored. Raises `Invalid` (chunk_empty, chunk_too_long)."""
    text = clean(text).strip("\n").rstrip()
    if not text.strip():
        raise Invalid("Write some text, or remove it.", code="chunk_empty")
    counter = counter_for(revision.document.base.embedding)
    if len(text) > MOST_CHARS or counter.count([text])[0] > MOST_TOKENS:
        raise Invalid(
            "This passage would be longer than %(limit)s tokens; split it first.",
            code="chunk_too_long",
            limit=MOST_TOKENS,
        )
    return text


def _parsed_text(revision: Revision) -> str | None:
    document = parsed(revision)
    return document.text if document else None
