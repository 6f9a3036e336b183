"""Passages and leaves of a document: search small, return large.

Decides alone where passages begin and end. Pure functions over frozen values: no database, no
settings, no network. `document.text[start:end]` of every passage and leaf is exactly its own text
(between `prefix` and `suffix`), all of the document's text lies in some leaf, and nothing is above
the hard cap of the base's embedding model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, groupby

from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.split.atoms import Atom, Limits, Measure, atoms_of
from knowledge.ingestion.split.embedding import embedding_text, embedding_texts
from knowledge.ingestion.split.packing import passages_of
from knowledge.ingestion.split.separators import separator_runs
from knowledge.ingestion.split.shapes import Leaf, Passage, SplitMode, SplitSettings
from knowledge.ingestion.split.smart import smart_runs
from knowledge.ingestion.split.tables import question_passages, row_runs
from knowledge.ingestion.split.tidy import Removed, TidyRules, removed_by, tidy
from portal.gateway.protocols import TokenCounter

__all__ = [
    "SMART",
    "Leaf",
    "Passage",
    "Removed",
    "SplitMode",
    "SplitSettings",
    "TidyRules",
    "embedding_text",
    "embedding_texts",
    "removed_by",
    "split",
    "tidy",
]


SMART = SplitSettings()


def split(
    document: ParsedDocument,
    counter: TokenCounter,
    settings: SplitSettings = SMART,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Passage, ...]:
    """The passages of a document in reading order; empty when it has no text.

    `progress(done, total)` is told often how many characters a round has been through, while none are counted.
    Raises `Invalid` (`bad_pattern`, `pattern_too_slow`) for separators of `settings` that can not be used.
    """
    total = len(document.text)
    measure = Measure(counter, lambda end: progress(end, total))
    atoms = atoms_of(document.text, document.blocks, Limits.of(settings, measure), measure)
    passages = (
        _with_questions(document, atoms, settings, measure)
        if settings.mode == "qa"
        else _plain(document, atoms, settings, measure)
    )
    return _numbered(passages)


def _numbered(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Passages and leaves numbered through the document, each from 0."""
    numbers = count()
    return tuple(
        replace(
            passage,
            ordinal=ordinal,
            leaves=tuple(replace(leaf, ordinal=next(numbers)) for leaf in passage.leaves),
        )
        for ordinal, passage in enumerate(passages)
    )


def _plain(document: ParsedDocument, atoms: Sequence[Atom], settings: SplitSettings, measure: Measure) -> list[Passage]:
    text, blocks = document.text, document.blocks
    if settings.mode == "separators":
        runs = separator_runs(text, blocks, atoms, settings, measure)
    else:
        runs = smart_runs(blocks, atoms, settings, measure.room)
        if settings.mode == "rows":
            runs = row_runs(runs)
    return passages_of(text, blocks, runs, settings, measure)


def _with_questions(
    document: ParsedDocument, atoms: Sequence[Atom], settings: SplitSettings, measure: Measure
) -> list[Passage]:
    """Tables of several columns row by row, question-answer blocks one by one, everything else smart."""

    def kind(atom: Atom) -> tuple[str, int]:
        if document.blocks[atom.block].kind == "qa":
            return "block", atom.block
        return ("table", atom.block) if atom.kind == "row" and (atom.opens or atom.row is not None) else ("text", -1)

    passages: list[Passage] = []
    for (sort, block), group in groupby(atoms, kind):
        members = list(group)
        if sort == "table":
            passages += question_passages(document.text, document.blocks, block, members, settings, measure)
        else:
            passages += _plain(document, members, replace(settings, mode="smart"), measure)
    return passages
