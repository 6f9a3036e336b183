"""Rows of one region to drafts of blocks: paragraphs, list items and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from knowledge.ingestion.blocks import BlockKind
from knowledge.ingestion.parsers.tables import markdown_table

from .cleaning import is_cjk_char, tidy
from .pieces import Box, Piece, Reading, glued
from .tables import LIST_MARK, Table, borderless_runs

LOOSE_PITCH = 1.35  # a line farther from the last than this many usual distances begins a paragraph
MONO_WIDTH = 0.6  # em
WIDEST_PITCH = 1.9  # em: lines of one paragraph, a little below double spacing
SIZE_STEP = 0.12  # relative change of font size that begins a paragraph
SENTENCE_END = tuple(".。!！?？:：;；…”」』")
_ITEM = re.compile(LIST_MARK.pattern + r"(?:\s+\S|(?<=[、)）•‣▪●■◆])\S)")
_CLAUSE = re.compile(r"第[一二三四五六七八九十百零〇\d]{1,6}[条章节编款]\s")
LEADER = " … "
_LABEL = re.compile(r"[\u4e00-\u9fff（）()/、]{1,10}[：:]|[A-Z][\w /-]{0,24}:\s")
_LEADER = re.compile(r"\s*(?:[.·…]\s?){5,}\s*")


@dataclass(slots=True)
class Draft:
    """A block before headings and page furniture are known. `box` as displayed, in points."""

    kind: BlockKind
    text: str
    page: int
    box: Box
    em: float
    bold: bool = False
    lines: int = 1
    level: int | None = None
    upright: bool = True  # in the page's main reading direction
    tail_full: bool = False  # the last line reaches the right edge, so the text may go on
    image: str | None = None  # key of the picture
    indent: float = 0.0  # where the first line begins, in points along the line
    ocr: bool = False  # read from a picture


@dataclass(slots=True)
class _Line:
    text: str
    u0: float
    v0: float
    u1: float
    v1: float
    base: float
    em: float
    bold: bool
    code: str  # the line as a listing shows it, or "" when it is no listing


def drafts_of_region(rows: Sequence[list[Piece]], tables: Sequence[Table], page: int, reading: Reading) -> list[Draft]:
    """Paragraphs and tables of one region in order."""
    drafts: list[Draft] = []
    at = 0
    for first, end, table in [*borderless_runs(rows), (len(rows), len(rows), None)]:
        text_rows: list[list[Piece]] = []
        for row in rows[at:first]:
            if row[0].table >= 0:
                drafts.extend(_text_drafts(text_rows, page, reading))
                text_rows = []
                drafts.extend(_table_draft(tables[piece.table], page, reading) for piece in row if piece.table >= 0)
            else:
                text_rows.append(row)
        drafts.extend(_text_drafts(text_rows, page, reading))
        if table is not None:
            drafts.append(_table_draft(table, page, reading))
        at = end
    return drafts


def _table_draft(table: Table, page: int, reading: Reading) -> Draft:
    return Draft(
        "table", markdown_table(table.cells), page, reading.displayed(table.box), table.em, lines=len(table.cells)
    )


def _line(row: Sequence[Piece]) -> _Line:
    longest = max(row, key=lambda piece: len(piece.text))
    text = tidy(" ".join(piece.text for piece in row))
    if not text.isalnum():
        text = _LEADER.sub(LEADER, text).rstrip()
    return _Line(
        text,
        min(piece.u0 for piece in row),
        min(piece.v0 for piece in row),
        max(piece.u1 for piece in row),
        max(piece.v1 for piece in row),
        longest.base,
        longest.em,
        all(piece.bold for piece in row),
        _listing(row) if all(piece.mono for piece in row) else "",
    )


def _listing(row: Sequence[Piece]) -> str:
    """A line of a listing with its inner gaps kept as spaces: all characters are 0.6 em wide."""
    text = ""
    for piece in row:
        column = round((piece.u0 - row[0].u0) / (MONO_WIDTH * max(piece.em, 1.0)))
        text = text.ljust(column) + piece.text if text else piece.text
    return text


def _text_drafts(rows: Sequence[list[Piece]], page: int, reading: Reading) -> list[Draft]:
    """Paragraphs and listings of rows that hold no table."""
    drafts: list[Draft] = []
    lines = [line for row in rows if (line := _line(row)).text.strip()]
    for listing, run in groupby(lines, key=lambda line: bool(line.code)):
        part = list(run)
        if listing and len(part) >= 2 and len({round(line.base) for line in part}) >= 2:
            drafts.extend(_code(group, page, reading) for group in _listings(part))
        else:
            drafts.extend(_paragraphs(part, page, reading))
    return drafts


def _listings(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Listings apart from each other: more than three empty lines between them."""
    groups: list[list[_Line]] = [[lines[0]]]
    for above, line in pairwise(lines):
        if 0 <= line.base - above.base <= 5 * line.em:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _code(lines: Sequence[_Line], page: int, reading: Reading) -> Draft:
    """A fenced block; indentation from where lines begin, empty lines from the distance between them."""
    left = min(line.u0 for line in lines)
    pitch = _usual_pitch(lines)
    rows: list[str] = []
    for i, line in enumerate(lines):
        if i:
            empty = round((line.base - lines[i - 1].base) / (pitch * line.em)) - 1
            rows.extend([""] * min(max(empty, 0), 3))
        rows.append(" " * round((line.u0 - left) / (MONO_WIDTH * line.em)) + line.code)
    box = (left, min(line.v0 for line in lines), max(line.u1 for line in lines), max(line.v1 for line in lines))
    body = "\n".join(rows)
    fence = "````" if "```" in body else "```"
    return Draft("code", f"{fence}\n{body}\n{fence}", page, reading.displayed(box), lines[0].em, lines=len(rows))


def _paragraphs(lines: Sequence[_Line], page: int, reading: Reading) -> list[Draft]:
    if not lines:
        return []
    rights = _right_edges(lines)
    pitch = _usual_pitch(lines)
    groups: list[list[_Line]] = [[lines[0]]]
    ends: list[float] = []
    for i, (above, line) in enumerate(pairwise(lines)):
        if _begins(above, line, groups[-1], rights[i], pitch):
            ends.append(rights[i])
            groups.append([line])
        else:
            groups[-1].append(line)
    ends.append(rights[-1])
    return [_paragraph(group, page, reading, right) for group, right in zip(groups, ends, strict=True)]


def _right_edges(lines: Sequence[_Line]) -> list[float]:
    """For each line how far right its text could have gone: the region's edge, or that of a narrow block around it."""
    whole = max(line.u1 for line in lines)
    low = min(line.u0 for line in lines)
    edges: list[float] = []
    for i in range(len(lines)):
        window = lines[max(0, i - 3) : i + 4]
        near = max(line.u1 for line in window)
        edges.append(near if len(window) >= 4 and near - low < 0.7 * (whole - low) else whole)
    return edges


def _usual_pitch(lines: Sequence[_Line]) -> float:
    """Distance of lines inside a paragraph, in em: a low quartile, since paragraphs stand farther apart."""
    pitches = sorted((b.base - a.base) / max(a.em, b.em) for a, b in pairwise(lines))
    pitches = [pitch for pitch in pitches if 0.5 < pitch < 3.0]
    return min(pitches[len(pitches) // 4], WIDEST_PITCH) if pitches else 1.3


def _begins(above: _Line, line: _Line, group: Sequence[_Line], right: float, pitch: float) -> bool:
    em = max(above.em, line.em)
    distance = (line.base - above.base) / em
    if distance > max(LOOSE_PITCH * pitch, pitch + 0.35) or distance < -0.5:
        return True
    if abs(line.em - above.em) > SIZE_STEP * em:
        return True
    if line.bold != above.bold and all(part.bold == above.bold for part in group):
        return True
    if _ITEM.match(line.text) or _CLAUSE.match(line.text) or LEADER in above.text:
        return True
    if _LABEL.match(line.text) and _LABEL.match(above.text):
        return True
    width = right - min(line.u0, above.u0)
    short = above.u1 < right - max(0.18 * width, 2 * em)
    ended = above.text.rstrip().endswith(SENTENCE_END)
    if short and (ended or above.u1 < right - 0.45 * width):
        return True
    begun = min(part.u0 for part in group)
    indented = line.u0 - above.u0 > 1.2 * em and len(group) >= 2 and above.u0 - begun < em
    return indented and (ended or short)


def _paragraph(group: Sequence[_Line], page: int, reading: Reading, right: float) -> Draft:
    box = (
        min(line.u0 for line in group),
        min(line.v0 for line in group),
        max(line.u1 for line in group),
        max(line.v1 for line in group),
    )
    text = ""
    for line in group:
        text = joined_lines(text, line.text)
    kind: BlockKind = "list" if _ITEM.match(text) else "paragraph"
    em = sorted(line.em for line in group)[len(group) // 2]
    bold = all(line.bold for line in group)
    edge = max(line.u1 for line in group) if len(group) > 1 else right
    full = group[-1].u1 >= edge - 2.5 * em
    return Draft(kind, text, page, reading.displayed(box), em, bold, len(group), tail_full=full, indent=group[0].u0)


def joined_lines(text: str, line: str) -> str:
    """One line after another: a hyphen at a word's break goes, Chinese joins without a space."""
    if not text:
        return line
    if text.endswith("-") and len(text) > 2 and text[-2].isalpha() and not is_cjk_char(text[-2]) and line[:1].islower():
        return text[:-1] + line
    return glued((text, line))
