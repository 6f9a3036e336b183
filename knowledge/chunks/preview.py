"""A split of a document's text before it is stored: by the functions that indexing uses; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from knowledge import base_settings
from knowledge.chunks.losses import Loss, losses
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.pipeline import as_read
from knowledge.ingestion.split import Passage, Removed, removed_by, split, tidy
from knowledge.ingestion.store import searchable_text
from knowledge.ingestion.transformations import rules_of, settings_of
from knowledge.models import Revision
from portal.gateway.embedding import counter_for
from portal.kernel.errors import Conflict

# A preview splits while the person waits: some two seconds of work. Of a longer text its beginning is shown.
PREVIEW_CHARS = 1_000_000
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

    `whole` is False when only the beginning of a long text was split. `lost` are changes by hand that a
    new split of this revision does not keep.
    """

    passages: tuple[Passage, ...]
    figures: Figures | None
    removed: tuple[Removed, ...]
    left_out: tuple[str, ...]
    whole: bool
    lost: tuple[Loss, ...]


def preview(revision: Revision, splitting: dict[str, Any]) -> Preview:
    """The split of a revision's text by some settings (those left out as the revision has them).

    Raises `Invalid` for settings that can not be used (`settings_invalid`, `bad_pattern`, `pattern_too_slow`) and
    `Conflict` (text_missing) while the text is not read.
    """
    document = as_read(revision)
    if document is None:
        raise Conflict("The text is not read yet; try again when it is.", code="text_missing")
    chosen = base_settings.read(base_settings.with_splitting(revision.config, splitting)).splitting
    shown, whole = _beginning(document)
    rules = rules_of(chosen)
    removed = removed_by(shown, rules)
    cleaned = tidy(shown, rules)
    passages = split(cleaned, counter_for(revision.document.base.embedding), settings_of(chosen))
    texts = [passage.text for passage in passages] if whole else None
    return Preview(
        passages=passages,
        figures=_figures(passages),
        removed=tuple(removed),
        left_out=_left_out(cleaned, passages),
        whole=whole,
        lost=tuple(losses(revision, texts)),
    )


def as_searched(revision: Revision, passage: Passage) -> list[str]:
    """What words and vectors of each leaf of a passage would be made of: titles, then its text."""
    return [searchable_text(revision.document.name, passage.heading_path, leaf.text) for leaf in passage.leaves]


def _beginning(document: ParsedDocument) -> tuple[ParsedDocument, bool]:
    if len(document.text) <= PREVIEW_CHARS:
        return document, True
    blocks = tuple(block for block in document.blocks if block.end <= PREVIEW_CHARS)
    end = blocks[-1].end if blocks else 0
    return replace(document, text=document.text[:end], blocks=blocks), False


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
