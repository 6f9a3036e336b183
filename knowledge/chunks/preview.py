"""What a split of a document's text would store, before it is stored: counts, what is left out, what hands changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from knowledge import base_settings
from knowledge.chunks.losses import ByHand, Fate, fate
from knowledge.chunks.splitting import Trial, trial
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.split import Passage, Removed, removed_by
from knowledge.ingestion.store import searchable_text
from knowledge.ingestion.transformations import rules_of
from knowledge.models import Revision

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of a split. Tokens are those of leaves; `longest` and `shortest` are (passage counted from 0, tokens)."""

    passages: int
    leaves: int
    tokens: int
    longest: tuple[int, int]
    shortest: tuple[int, int]
    average: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What a split would store. `left_out` are texts that stand in no chunk, `removed` what clean-up takes out.

    `whole` is False when only the beginning of a long text was split. Of the changes made by hand, `kept` go along
    to the new split and `lost` do not.
    """

    passages: tuple[Passage, ...]
    figures: Figures | None
    removed: tuple[Removed, ...]
    left_out: tuple[str, ...]
    whole: bool
    kept: tuple[ByHand, ...]
    lost: tuple[ByHand, ...]


def preview(revision: Revision, splitting: dict[str, Any]) -> Preview:
    """The split of a revision's text by some settings (those left out as the revision has them).

    Raises `Invalid` for settings that can not be used (`settings_invalid`, `bad_pattern`, `pattern_too_slow`) and
    `Conflict` (text_missing) while the text is not read.
    """
    config = base_settings.with_splitting(revision.config, splitting)
    found = trial(revision, config)
    hands = by_hand(revision, found)
    return Preview(
        passages=found.passages,
        figures=_figures(found.passages),
        removed=tuple(removed_by(found.read, rules_of(base_settings.read(config).splitting))),
        left_out=_left_out(found.cleaned, found.passages),
        whole=found.whole,
        kept=hands.kept,
        lost=hands.lost,
    )


def by_hand(revision: Revision, found: Trial | None) -> Fate:
    """What becomes of changes by hand when the document is split anew: those of this review, or of what is searched."""
    changed = revision if revision.status == Revision.Status.REVIEW else revision.document.active_revision
    return fate(changed, found) if changed is not None else Fate()


def as_searched(revision: Revision, passage: Passage) -> list[str]:
    """What words and vectors of each leaf of a passage would be made of: titles, then its text."""
    return [searchable_text(revision.document.name, passage.heading_path, leaf.text) for leaf in passage.leaves]


def _figures(passages: Sequence[Passage]) -> Figures | None:
    sizes = [(leaf.token_count, passage.ordinal) for passage in passages for leaf in passage.leaves]
    if not sizes:
        return None
    tokens = sum(size for size, _ in sizes)
    longest, shortest = max(sizes), min(sizes)
    return Figures(
        passages=len(passages),
        leaves=len(sizes),
        tokens=tokens,
        longest=(longest[1], longest[0]),
        shortest=(shortest[1], shortest[0]),
        average=round(tokens / len(sizes)),
    )


def _left_out(document: ParsedDocument, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Texts between the passages that are no white space: heads of question tables, rows without words."""
    spans = sorted((passage.start, passage.end) for passage in passages)
    edges = [(0, 0), *spans, (len(document.text), len(document.text))]
    reached, found = 0, []
    for (_, end), (start, _) in pairwise(edges):
        reached = max(reached, end)
        piece = document.text[reached:start].strip()
        if piece:
            found.append(piece[:160])
    return tuple(found[:_EXAMPLES])
