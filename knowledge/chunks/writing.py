"""Putting a changed passage into the tables: row, leaves, lexemes, vectors and word counts, all at once or not at all.

Vectors are made before the transaction, so that a slow model holds no lock; leaves whose text some leaf
of this document has already are not embedded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from django.db.models import F, Max
from numpy.typing import NDArray

from knowledge import base_settings, statistics
from knowledge.chunks import history, shaping
from knowledge.chunks.history import LeafState, PassageState
from knowledge.ingestion import store
from knowledge.ingestion.split import Leaf
from knowledge.ingestion.split.handmade import leaves_of
from knowledge.ingestion.transformations import settings_of
from knowledge.models import Chunk, ChunkVector, Revision
from knowledge.text import clean
from portal.gateway.accounting import Caller
from portal.gateway.embedding import counter_for, embedder_for, space_of
from portal.gateway.models import Purpose
from portal.gateway.protocols import TokenCounter
from portal.kernel.errors import Conflict
from portal.kernel.principal import Principal

Vector = NDArray[np.float32]


def vectors_for(principal: Principal, revision: Revision, states: Iterable[PassageState]) -> dict[str, Vector]:
    """A vector for every leaf of the states, by digest; empty for a revision that has no vectors yet.

    Those that must be made are paid for by whoever edits. Raises `TooMany` (quota_exceeded) as every call does,
    `Unavailable` when the model is away and `Conflict` (model_changed) when it is another one by now.
    """
    if revision.status != Revision.Status.INDEXED or revision.space_id is None:
        return {}
    name = clean(revision.document.name)
    texts: dict[str, str] = {}
    for state in states:
        if not state.gone:
            for leaf in state.leaves:
                text = _searched(name, state, leaf)
                texts[store.digest(text)] = text
    if not texts:
        return {}
    base = revision.document.base
    endpoint, caller = base.embedding, Caller(principal, Purpose.EDIT, bases=(base.uid,))
    if space_of(endpoint, caller).pk != revision.space_id:
        raise Conflict(
            "The base has another embedding model than this document was indexed with; re-index it first.",
            code="model_changed",
        )
    rows = ChunkVector.objects.filter(
        revision__document_id=revision.document_id, space_id=revision.space_id, chunk__sha256__in=list(texts)
    )
    found: dict[str, Vector] = {
        key: np.asarray(vector, dtype=np.float32) for key, vector in rows.values_list("chunk__sha256", "halfvec")
    }
    missing = [key for key in texts if key not in found]
    if missing:
        made = embedder_for(endpoint, caller).embed_passages([texts[key] for key in missing])
        found |= dict(zip(missing, made, strict=True))
    return found


def _searched(name: str, state: PassageState, leaf: LeafState) -> str:
    return store.searchable_text(name, [clean(title) for title in state.heading_path], clean(leaf.text))


def cutter_of(revision: Revision) -> shaping.Cutter:
    """How a text is cut into leaves by the settings of a revision."""
    settings = settings_of(base_settings.read(revision.config).splitting)
    counter = counter_for(revision.document.base.embedding)

    def leaves(text: str, whole: bool) -> Sequence[Leaf]:
        # A question with its answer stays one leaf, as splitting made it.
        return leaves_of(text, counter, settings, whole=whole and settings.mode in ("qa", "rows"))

    return leaves


def bring(
    revision: Revision,
    row: Chunk | None,
    state: PassageState,
    vectors: dict[str, Vector],
    *,
    place: int = 0,
    counter: TokenCounter,
    counted: bool,
) -> tuple[Chunk, PassageState]:
    """Bring a passage (None: a new one at `place`) to a state, its place included; returns what to record.

    As `write` otherwise.
    """
    if row is None:
        make_room(revision, place)
        state = replace(state, ordinal=place)
    else:
        history.keep_first(row, revision)
        if state.gone and row.level == Chunk.Level.PASSAGE:
            state = replace(state, ordinal=row.ordinal)
            take_out(revision, row)
        elif not state.gone and row.level == Chunk.Level.GONE:
            put_back(revision, row, state.ordinal)
    row = write(revision, row, state, vectors, counter=counter, counted=counted)
    return row, state if state.gone else replace(state, ordinal=row.ordinal)


def write(
    revision: Revision,
    row: Chunk | None,
    state: PassageState,
    vectors: dict[str, Vector],
    *,
    counter: TokenCounter,
    counted: bool,
) -> Chunk:
    """Bring a passage (None: a new one, its place is free already) to a state; returns its row.

    `counted` says whether the document's words stand in the base's statistics. The caller holds the document.
    """
    base = counter.count([""])[0]
    tokens = base + sum(leaf.token_count - base for leaf in state.leaves)
    values = {
        "text": clean(state.text),
        "prefix": clean(state.prefix),
        "heading_path": [clean(title) for title in state.heading_path],
        "page": state.page,
        "sheet": state.sheet,
        "row_first": state.row_first,
        "row_last": state.row_last,
        "slide": state.slide,
        "start": state.start,
        "end": state.end,
        "enabled": state.enabled,
        "token_count": tokens,
        "sha256": store.digest(clean(state.text)),
    }
    if row is None:
        row = Chunk.objects.create(revision=revision, level=Chunk.Level.PASSAGE, ordinal=state.ordinal, **values)
    else:
        # Not `save`: that would write back lexemes that were not loaded.
        Chunk.objects.filter(pk=row.pk).update(version=F("version") + 1, **values)
    leaves = () if state.gone else state.leaves
    now = list(row.leaves.order_by("ordinal").values_list("text", "prefix"))
    if now != [(clean(leaf.text), clean(leaf.prefix)) for leaf in leaves]:
        if counted and now:
            statistics.append_passage(revision.base_id, revision.pk, row.pk, sign=-1)
        row.leaves.all().delete()
        _add_leaves(revision, row.pk, state, leaves, vectors)
        if counted and leaves:
            statistics.append_passage(revision.base_id, revision.pk, row.pk, sign=1)
    _exclude(row, leaves)
    row.refresh_from_db(fields=["version", "text", "sha256", "enabled", "ordinal", "level"])
    return row


def _add_leaves(
    revision: Revision, passage: int, state: PassageState, leaves: Sequence[LeafState], vectors: dict[str, Vector]
) -> None:
    if not leaves:
        return
    drafts = [
        Leaf(place, leaf.text, leaf.start, leaf.end, leaf.token_count, leaf.prefix) for place, leaf in enumerate(leaves)
    ]
    name = clean(revision.document.name)
    ids = store.add_leaves(revision.pk, passage, (name, state.heading_path), drafts)
    if vectors and revision.space is not None:
        # The base may have gone over to another model since the vectors were made; the caller holds the document.
        if Revision.objects.values_list("space_id", flat=True).get(pk=revision.pk) != revision.space_id:
            raise Conflict("The embedding model of this base has just been changed; try again.", code="model_changed")
        block = np.stack([vectors[store.digest(_searched(name, state, leaf))] for leaf in leaves])
        store.add_vectors(revision.pk, revision.space, ids, block)


def _exclude(row: Chunk, leaves: Sequence[LeafState]) -> None:
    """Bring the leaves' switches to what the state says; rows that are right already are not written."""
    stored = list(row.leaves.order_by("ordinal").values_list("pk", "enabled"))
    for wanted in (True, False):
        wrong = [pk for (pk, now), leaf in zip(stored, leaves, strict=True) if leaf.enabled == wanted and now != wanted]
        if wrong:
            Chunk.objects.filter(pk__in=wrong).update(enabled=wanted)


# -- places ----------------------------------------------------------------------------------------


def make_room(revision: Revision, ordinal: int) -> None:
    """Move the passages from `ordinal` on one down."""
    rows = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE, ordinal__gte=ordinal)
    rows.update(ordinal=F("ordinal") + 1)


def take_out(revision: Revision, row: Chunk) -> None:
    """Set a passage aside as removed; those after it move up."""
    gone = Chunk.objects.filter(revision=revision, level=Chunk.Level.GONE).aggregate(last=Max("ordinal"))["last"]
    Chunk.objects.filter(pk=row.pk).update(level=Chunk.Level.GONE, ordinal=0 if gone is None else gone + 1)
    later = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE, ordinal__gt=row.ordinal)
    later.update(ordinal=F("ordinal") - 1)


def put_back(revision: Revision, row: Chunk, ordinal: int) -> None:
    """Bring a removed passage back to its place, or the nearest that there is now."""
    count = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE).count()
    place = min(ordinal, count)
    make_room(revision, place)
    Chunk.objects.filter(pk=row.pk).update(level=Chunk.Level.PASSAGE, ordinal=place)
