"""Splitting tables row by row: one row one passage, as it stands or as a question with its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.split.atoms import Atom, Measure
from knowledge.ingestion.split.packing import Part, rows_of
from knowledge.ingestion.split.sentences import windows
from knowledge.ingestion.split.shapes import Leaf, Passage, SplitSettings

_CELL = re.compile(r"(?<!\\)\|")
_QUESTION = re.compile(r"问题?|提问|标准问.*|標題|标题|q|questions?|query|ask|title", re.IGNORECASE)
_ANSWER = re.compile(r"答案?|回答|解答|内容|回复|a|answers?|reply|response|content", re.IGNORECASE)
_SIMILAR = re.compile(
    r"相似问[题法]?.*|扩展问[题法]?.*|其他问法.*|similar[ _]?questions?\b.*|alternative[ _]?questions?\b.*",
    re.IGNORECASE,
)
# A line break inside a cell, as Markdown writes it.
_BREAK = re.compile(r"\s*<br\s*/?>\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which cells of a row are the question, the answer and other ways to ask; the rest is `extra`, with titles."""

    question: int
    answer: int
    similar: tuple[int, ...]
    extra: tuple[tuple[int, str], ...]


def row_runs(runs: Sequence[Part]) -> list[Part]:
    """The runs, with each table row in one of its own (the head goes with the first)."""
    return [group for run in runs for group in _groups(run)]


def _groups(atoms: Part) -> list[Part]:
    groups: list[list[Atom]] = []
    for atom in atoms:
        before = groups[-1][-1] if groups else None
        if before is not None and _same_part(before, atom):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return list(groups)


def _same_part(before: Atom, atom: Atom) -> bool:
    if before.opens or (before.kind != "row" and atom.kind != "row"):
        return True
    return before.kind == atom.kind == "row" and (before.block, before.row) == (atom.block, atom.row)


def cells_of(line: str) -> list[str]:
    """The cells of a pipe table's row, `\\|` as a bar again."""
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(inner)]


def columns_of(head: Sequence[str], settings: SplitSettings) -> Columns:
    """The named columns, else those that look like question and answer, else the first two."""
    titles = [title.strip() for title in head]

    def find(name: str, looks: re.Pattern[str]) -> int | None:
        wanted = name.strip().casefold()
        if wanted:
            return next((i for i, title in enumerate(titles) if title.casefold() == wanted), None)
        return next((i for i, title in enumerate(titles) if looks.fullmatch(title)), None)

    question = find(settings.question_column, _QUESTION)
    answer = find(settings.answer_column, _ANSWER)
    if question is None:
        question = 0 if answer != 0 else min(1, len(titles) - 1)
    if answer is None or answer == question:
        answer = next((i for i in range(len(titles)) if i != question), question)
    similar = tuple(i for i, title in enumerate(titles) if i not in (question, answer) and _SIMILAR.fullmatch(title))
    extra = tuple((i, title) for i, title in enumerate(titles) if i not in (question, answer, *similar))
    return Columns(question, answer, similar, extra)


def question_passages(
    text: str, blocks: Sequence[Block], table: int, atoms: Sequence[Atom], settings: SplitSettings, measure: Measure
) -> list[Passage]:
    """One passage a row of the table block; ordinals count from 0. Rows without any text are left out."""
    block = blocks[table]
    columns = columns_of(cells_of(block.text.split("\n", 1)[0]), settings)
    passages: list[Passage] = []
    rows: dict[int, list[Atom]] = {}
    for atom in atoms:
        if atom.row is not None:
            rows.setdefault(atom.row, []).append(atom)
    for parts in rows.values():
        start, end = parts[0].start, parts[-1].end
        cells = cells_of(text[start:end])
        question, answer = _cell(cells, columns.question), _cell(cells, columns.answer)
        if columns.answer == columns.question:  # a table of one column: the text once
            question, answer = "", question
        similar = [_cell(cells, index) for index in columns.similar]
        more = [f"{title}: {_cell(cells, index)}" for index, title in columns.extra if _cell(cells, index)]
        # Other ways to ask are routes to the passage (`knowledge/questions`) and no part of what it says.
        whole = "\n".join(piece for piece in (question, answer, *more) if piece) or "\n".join(filter(None, similar))
        if not whole:
            continue
        questions = tuple(piece for text in (question, *similar) for piece in text.split("\n") if piece.strip())
        for piece in _pieces(whole, measure):
            ordinal = len(passages)
            count = measure.full([piece])[0]
            place = Passage(ordinal, piece, start, end, count, (Leaf(0, piece, start, end, count),), block.heading_path)
            place = replace(place, page=block.page, sheet=block.sheet, slide=block.slide)
            passages.append(replace(place, rows=rows_of(parts), questions=questions))
            questions = ()
    return passages


def _cell(cells: Sequence[str], index: int) -> str:
    return _BREAK.sub("\n", cells[index]) if index < len(cells) else ""


def _pieces(whole: str, measure: Measure) -> list[str]:
    """The text, in pieces when it is above the cap."""
    waiting, done = [whole], []
    while waiting:
        piece = waiting.pop(0)
        tokens = measure.net([piece])[0]
        if tokens <= measure.room or len(piece) == 1:
            done.append(piece)
            continue
        size = min(int(len(piece) * measure.room / tokens * 0.95), len(piece) - 1)
        waiting[:0] = [piece[low:high] for low, high in windows(piece, 0, len(piece), size)]
    return done
