"""Putting changes made by hand into a new split, before it is embedded, each act whole or not at all.

What belongs where is decided in `handwork`. Each act is a transaction under the worker's claim and a version of its
own ("carried over"), so that it can be undone and goes along to the split after this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from pydantic import TypeAdapter

from knowledge.chunks import handwork, history, writing
from knowledge.chunks.handwork import Act, Fitted, Handwork, Made, Result
from knowledge.chunks.history import LeafState, PassageState
from knowledge.chunks.losses import same_text
from knowledge.ingestion import store
from knowledge.models import Chunk, ChunkVersion, Revision
from portal.gateway.embedding import counter_for
from portal.gateway.protocols import TokenCounter
from portal.kernel.models import User, json_safe, new_uid

_SHAPE = TypeAdapter(Handwork)


@dataclass(frozen=True, slots=True)
class Carried:
    """How many acts went along, and how many changes of text did not."""

    kept: int
    lost: int


def as_json(revision: Revision) -> dict[str, Any]:
    """The changes by hand of a revision whose passages are about to be dropped, to be kept on its row."""
    found: dict[str, Any] = json_safe(_SHAPE.dump_python(handwork.collect(revision), mode="json"))
    return found


def carry(revision: Revision, claim_no: int, told: Callable[[int, int], None]) -> Carried:
    """Bring the changes by hand of the document's earlier passages into those that were just written.

    Those are of the review that splits anew, else of the current revision. `told` gets acts done and in all.
    Raises `Conflict` (claim_lost).
    """
    work = _source(revision)
    if not work.acts:
        return Carried(0, 0)
    rows = list(Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE).defer("lexemes").order_by("ordinal"))
    fresh = [handwork.made_of(row) for row in rows]
    places = handwork.fitted(work, fresh, same_text=same_text(work, revision.parsed_key))
    job = _Carrying(revision, claim_no, [row.pk for row in rows], fresh)
    lost = 0
    for number, (act, place) in enumerate(zip(work.acts, places, strict=True)):
        if place is not None:
            job.put(act, place)
        else:
            lost += sum(one.kind not in (None, "excluded") for one in act)
        told(number + 1, len(work.acts))
    return Carried(sum(place is not None for place in places), lost)


def _source(revision: Revision) -> Handwork:
    if revision.handwork:
        return _SHAPE.validate_python(revision.handwork)
    active = revision.document.active_revision
    if active is None or active.pk == revision.pk:
        return Handwork("")
    return handwork.collect(active)


@dataclass(slots=True)
class _Carrying:
    """The new split by ordinal as it was written: `pks` and `fresh`; `tails` are the last additions behind each."""

    revision: Revision
    claim_no: int
    pks: Sequence[int]
    fresh: Sequence[Made]
    tails: dict[int, int] = field(default_factory=dict)

    def put(self, act: Act, place: Fitted) -> None:
        """Bring one act into the tables."""
        change = new_uid()
        pairs = [(one.made, self.fresh[place.at[one.chunk]]) for one in act if one.made is not None]
        pairs.sort(key=lambda pair: pair[1].start)
        with transaction.atomic():
            store.hold_claim(self.revision.pk, self.claim_no)
            # Additions first: what they stand behind may be taken out by the same act.
            for one in sorted(act, key=lambda one: one.made is not None):
                self._put(one, place.at[one.chunk], pairs, change)

    def _put(self, result: Result, at: int, pairs: list[tuple[Made, Made]], change: str) -> None:
        counter = counter_for(self.revision.base.embedding)
        if result.made is not None:
            row = Chunk.objects.defer("lexemes").get(pk=self.pks[at])
            state = self._state(result.state, handwork.moved(result.state, pairs), history.state_of(row), counter)
            row, state = writing.bring(self.revision, row, state, {}, counter=counter, counted=False)
        else:
            if not pairs and result.behind is not None and at >= 0:
                pairs = [(result.behind, self.fresh[at])]
            state = self._state(result.state, handwork.moved(result.state, pairs), None, counter)
            row, state = writing.bring(
                self.revision, None, state, {}, place=self._place_behind(at), counter=counter, counted=False
            )
            self.tails[at] = row.pk
        by = User.objects.filter(pk=result.by or 0).values_list("pk", flat=True).first()
        when = datetime.fromisoformat(result.at) if result.at else None
        history.record(row, state, ChunkVersion.Verb.CARRY, change, by, at=when)

    def _place_behind(self, at: int) -> int:
        """The place behind a passage of the split, and behind what was added there already."""
        while at >= 0:
            anchor = Chunk.objects.filter(pk=self.tails.get(at, self.pks[at]), level=Chunk.Level.PASSAGE)
            place = anchor.values_list("ordinal", flat=True).first()
            if place is not None:
                return int(place) + 1
            at -= 1
        top = Chunk.objects.filter(pk=self.tails.get(-1, 0)).values_list("ordinal", flat=True).first()
        return 0 if top is None else int(top) + 1

    def _state(
        self, before: PassageState, state: PassageState, fresh: PassageState | None, counter: TokenCounter
    ) -> PassageState:
        """The state with leaves as the new settings cut them; excluded ones stay so where they read the same."""
        known = {leaf.text: leaf for leaf in state.leaves}
        if fresh is not None and fresh.text == before.text:
            leaves = tuple(
                replace(leaf, enabled=known[leaf.text].enabled if leaf.text in known else True) for leaf in fresh.leaves
            )
            return replace(fresh, enabled=state.enabled, gone=state.gone, leaves=leaves)
        cut = writing.cutter_of(self.revision)
        made = [
            LeafState(leaf.text, leaf.prefix, state.start, state.end, leaf.token_count)
            for leaf in cut(state.text, len(state.leaves) == 1)
        ]
        leaves = tuple(
            replace(leaf, start=known[leaf.text].start, end=known[leaf.text].end, enabled=known[leaf.text].enabled)
            if leaf.text in known
            else leaf
            for leaf in made
        )
        return replace(state, leaves=leaves)
