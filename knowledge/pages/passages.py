"""Found passages for people: cards of hits as they were stored. Alone decides what of a passage a card shows.

Text is handed to templates in pieces, never as HTML: the templates escape every one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from django.utils.translation import get_language, gettext

from knowledge.access import visible_documents
from knowledge.ingestion.blocks import NO_ALT
from portal.kernel.principal import Principal

# Characters of an excerpt, and lines of a table in it besides its head.
EXCERPT = 360
TABLE_LINES = 4
# Of the relevance of the best passage: what is less is shown folded, as found but not cited.
CITED_SHARE = 0.5
CITED_MOST = 5
_TABLE_LINE = re.compile(r"^\s*\|.*\|\s*$")
_TABLE_RULE = re.compile(r"^\s*\|[\s:|-]+\|\s*$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CJK = re.compile(r"[\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some characters, and whether they are a term of the question."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: its cells in pieces."""

    cells: tuple[tuple[Piece, ...], ...]
    marked: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Prose (`pieces`) or a table (`rows`, of which the first is the `head` where the file had one)."""

    pieces: tuple[Piece, ...] = ()
    head: Row | None = None
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One hit as a card. `meter` is the score within its column, 0–1; `available` False hides what was copied."""

    hit: Mapping[str, Any]
    meter: float
    available: bool
    excerpt: tuple[Part, ...]
    whole: tuple[Part, ...]
    shortened: bool
    language: str
    place: str
    elsewhere: tuple[tuple[str, int | None], ...] = field(default=())

    @property
    def percent(self) -> int:
        """Relevance in whole percent."""
        return round(100 * float(self.hit["relevance"]))


def cards(principal: Principal, hits: Sequence[Mapping[str, Any]], excerpt: int = EXCERPT) -> list[Card]:
    """The cards of one list of stored hits, in their order; scores are scaled by the highest of the list."""
    there = still_there(principal, hits)
    top = max((float(hit["score"]) for hit in hits), default=0.0)
    return [_card(hit, top, hit["document"] in there, excerpt) for hit in hits]


def still_there(principal: Principal, hits: Iterable[Mapping[str, Any]]) -> set[str]:
    """Of the hits' documents those that the asker can still open."""
    uids = {str(hit["document"]) for hit in hits}
    return set(visible_documents(principal).filter(uid__in=uids).values_list("uid", flat=True)) if uids else set()


def cited(hits: Sequence[Mapping[str, Any]]) -> int:
    """How many of the hits, from the first on, an answer rests on; the others were merely found."""
    if not hits:
        return 0
    least = CITED_SHARE * max(float(hit["relevance"]) for hit in hits)
    number = 0
    for hit in hits[:CITED_MOST]:
        if float(hit["relevance"]) < least:
            break
        number += 1
    return max(number, 1)


def place(hit: Mapping[str, Any]) -> str:
    """Where the passage stands, in the reader's language: heading path, page, sheet and rows, slide."""
    parts = [str(title) for title in hit["heading_path"]]
    if hit["page"]:
        parts.append(gettext("page %(n)s") % {"n": hit["page"]})
    if hit["sheet"]:
        rows = hit["rows"]
        parts.append(
            gettext("%(sheet)s rows %(first)s–%(last)s") % {"sheet": hit["sheet"], "first": rows[0], "last": rows[1]}
            if rows
            else str(hit["sheet"])
        )
    if hit["slide"]:
        parts.append(gettext("slide %(n)s") % {"n": hit["slide"]})
    return " › ".join(parts)


def language_of(text: str) -> str:
    """The `lang` of a passage where it differs from that of the page; otherwise empty."""
    letters = sum(char.isalpha() for char in text[:600])
    chinese = len(_CJK.findall(text[:600])) * 3 > letters
    page_chinese = (get_language() or "en").startswith("zh")
    if not letters or chinese == page_chinese:
        return ""
    return "zh-Hans" if chinese else "en"


def parts(text: str, highlights: Sequence[Sequence[int]]) -> tuple[Part, ...]:
    """A passage's text as paragraphs and tables, its highlights kept."""
    found: list[Part] = []
    table: list[tuple[int, str]] = []
    prose: list[tuple[int, str]] = []

    def close() -> None:
        if table:
            found.append(_table(table, highlights))
            table.clear()
        if prose:
            start, end = prose[0][0], prose[-1][0] + len(prose[-1][1])
            if text[start:end].strip():
                found.append(Part(pieces=_pieces(text, start, end, highlights)))
            prose.clear()

    offset = 0
    for line in text.split("\n"):
        # A blank line ends a paragraph, and is none itself; nor is what stands for a picture without words.
        if line.strip() == NO_ALT:
            close()
            offset += len(line) + 1
            continue
        if not line.strip() or bool(_TABLE_LINE.match(line)) == bool(prose):
            close()
        if line.strip():
            (table if _TABLE_LINE.match(line) else prose).append((offset, line))
        offset += len(line) + 1
    close()
    return tuple(found)


def _card(hit: Mapping[str, Any], top: float, available: bool, excerpt: int) -> Card:
    text, highlights = (str(hit["text"]), list(hit["highlights"])) if available else ("", [])
    whole = parts(text, highlights)
    short = _shortened(text, highlights, whole, excerpt)
    score = float(hit["score"])
    return Card(
        hit=hit,
        meter=max(0.0, min(1.0, score / top)) if top > 0 else 0.0,
        available=available,
        excerpt=short if short is not None else whole,
        whole=whole,
        shortened=short is not None,
        language=language_of(text),
        place=place(hit),
    )


def _shortened(
    text: str, highlights: Sequence[Sequence[int]], whole: Sequence[Part], limit: int
) -> tuple[Part, ...] | None:
    """The lines or characters around the first terms; None where the whole is short enough."""
    if len(text) <= limit * 1.25:
        return None
    tables = [part for part in whole if part.rows]
    if tables:
        best = max(tables, key=lambda part: sum(row.marked for row in part.rows))
        rows = best.rows
        keep = sorted(sorted(range(len(rows)), key=lambda at: (not rows[at].marked, at))[:TABLE_LINES])
        before = [part for part in whole if part.pieces and whole.index(part) < whole.index(best)][:1]
        intro = [part for part in before if sum(len(piece.text) for piece in part.pieces) <= limit]
        return (*intro, Part(head=best.head, rows=tuple(rows[at] for at in keep)))
    start = _window(text, highlights, limit)
    end = min(len(text), start + limit)
    within = parts(text[start:end], [(max(first - start, 0), last - start) for first, last in highlights])
    lead = (Piece("…"),) if start else ()
    tail = (Piece("…"),) if end < len(text) else ()
    pieces = [list(part.pieces) for part in within] or [[]]
    pieces[0] = [*lead, *pieces[0]]
    pieces[-1] = [*pieces[-1], *tail]
    return tuple(Part(pieces=tuple(part)) for part in pieces)


def _window(text: str, highlights: Sequence[Sequence[int]], limit: int) -> int:
    """Where the stretch of `limit` characters with most marked ones begins, at the start of a sentence or line."""
    best, start = -1, 0
    for first, _ in highlights or [(0, 0)]:
        covered = sum(end - begin for begin, end in highlights if first <= begin and end <= first + limit - 60)
        if covered > best:
            best, start = covered, first
    if start < 80:
        return 0
    for at in range(start, max(start - 80, 0), -1):
        if text[at - 1] in "\n。！？；.!?;":
            return at + (len(text[at:start]) - len(text[at:start].lstrip()))
    return max(start - 30, 0)


def _pieces(text: str, start: int, end: int, highlights: Sequence[Sequence[int]]) -> tuple[Piece, ...]:
    found: list[Piece] = []
    position = start
    for first, last in sorted((int(first), int(last)) for first, last in highlights):
        first, last = max(first, position), min(last, end)
        if first >= last:
            continue
        if first > position:
            found.append(Piece(text[position:first]))
        found.append(Piece(text[first:last], marked=True))
        position = last
    if position < end:
        found.append(Piece(text[position:end]))
    return tuple(found)


def _table(lines: Sequence[tuple[int, str]], highlights: Sequence[Sequence[int]]) -> Part:
    has_head = len(lines) > 1 and bool(_TABLE_RULE.match(lines[1][1]))
    rows = [_row(line, offset, highlights) for offset, line in lines if not _TABLE_RULE.match(line)]
    if has_head and rows:
        return Part(head=rows[0], rows=tuple(rows[1:])) if len(rows) > 1 else Part(rows=tuple(rows))
    return Part(rows=tuple(rows))


def _row(line: str, offset: int, highlights: Sequence[Sequence[int]]) -> Row:
    borders = [match.start() for match in _CELL_BORDER.finditer(line)]
    cells = []
    for left, right in pairwise(borders):
        raw = line[left + 1 : right]
        start = left + 1 + len(raw) - len(raw.lstrip())
        end = start + len(raw.strip())
        shifted = [(first - offset, last - offset) for first, last in highlights]
        pieces = _pieces(line, start, max(start, end), shifted)
        cells.append(tuple(replace(piece, text=piece.text.replace("\\|", "|")) for piece in pieces))
    return Row(tuple(cells), any(piece.marked for cell in cells for piece in cell))
