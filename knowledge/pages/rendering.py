"""Parsed text as HTML: blocks become headings, tables, lists and code; cited spans become marks.

Alone decides what a reader sees of a file's text. Everything is escaped when it is put in, and the
whole goes through an allow-list (`nh3`) once more: nothing of a document's own markup ever acts, and
no picture is fetched from anywhere but the permission-checked address of its revision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from knowledge.ingestion.blocks import NO_ALT, Block, ParsedDocument
from knowledge.pages.passage_place import Span

# Characters of one piece (a long table or listing is cut between lines) and of one part of the reader.
PIECE = 6_000
PART = 24_000
_RULE = re.compile(r"^\|[\s:|-]+\|?\s*$")
_ITEM = re.compile(r"^(?P<indent>\s*)(?P<marker>[-*+•]|(?P<number>\d{1,9})[.)、])\s+(?P<text>.*)$")
_CELL_END = re.compile(r"(?<!\\)\|")
_TAGS = {
    "h2", "h3", "h4", "h5", "h6", "p", "br", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "pre",
    "code", "blockquote", "figure", "figcaption", "img", "mark", "aside", "div", "span", "hr",
    "a", "strong", "em",
}  # fmt: skip
_ATTRIBUTES = {
    "*": {"id", "class", "tabindex"},
    "li": {"value"},
    "ol": {"start"},
    "th": {"scope"},
    "img": {"src", "alt", "loading"},
    "a": {"href", "aria-label"},
    "span": {"lang"},
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A block, or some whole lines of a long one: [start, end) in the parsed text."""

    block: Block
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """What the reader shows at once. `number` counts from 1."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        return self.pieces[0].start

    @property
    def end(self) -> int:
        return self.pieces[-1].end


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of the outline: `depth` from 0, `part` and `anchor` say where it leads."""

    title: str
    depth: int
    part: int
    anchor: str


def parts(document: ParsedDocument, size: int = PART) -> list[Part]:
    """The document in parts of about `size` characters, cut between blocks (or between lines of long ones)."""
    found: list[Part] = []
    held: list[Piece] = []
    length = 0
    for piece in _pieces(document.blocks):
        extent = piece.end - piece.start
        if held and length + extent > size:
            found.append(Part(len(found) + 1, tuple(held)))
            held, length = [], 0
        held.append(piece)
        length += extent
    if held:
        found.append(Part(len(found) + 1, tuple(held)))
    return found


def _pieces(blocks: Iterable[Block]) -> Iterable[Piece]:
    for block in blocks:
        start = block.start
        while block.end - start > PIECE:
            # Between lines where there are any; a single endless line is cut where it is.
            cut = block.text.rfind("\n", start - block.start, start - block.start + PIECE)
            end = block.start + cut + 1 if cut > 0 and block.start + cut + 1 > start else start + PIECE
            yield Piece(block, start, end)
            start = end
        yield Piece(block, start, block.end)


def part_at(found: Sequence[Part], offset: int) -> int:
    """The number of the part that holds an offset; the last one that starts before it."""
    number = 1
    for part in found:
        if part.start > offset:
            break
        number = part.number
    return number


def outline(found: Sequence[Part], limit: int = 400) -> list[Heading]:
    """The document's headings, at most four levels deep."""
    rows = [
        Heading(piece.block.text, min((piece.block.level or 1) - 1, 3), part.number, f"t{piece.start}")
        for part in found
        for piece in part.pieces
        if piece.block.kind == "heading" and (piece.block.level or 1) <= 4 and piece.start == piece.block.start
    ]
    for deepest in (3, 2, 1):
        if len(rows) <= limit:
            break
        rows = [row for row in rows if row.depth < deepest]
    return rows[:limit]


@dataclass(slots=True)
class Marks:
    """The cited spans, and whether the anchor was given out: the first mark alone carries the id."""

    spans: Sequence[Span] = ()
    anchor: str = ""
    _given: bool = field(default=False, init=False)

    def dress(self, text: str, offset: int) -> str:
        """Escaped text that starts at `offset` of the parsed text, its cited parts in marks."""
        out: list[str] = []
        position = 0
        for span in self.spans:
            inside = span.cut(offset, offset + len(text))
            if inside is None or not text[inside.start - offset : inside.end - offset].strip():
                continue
            out.append(escape(text[position : inside.start - offset]))
            out.append(self._open() + escape(text[inside.start - offset : inside.end - offset]) + "</mark>")
            position = inside.end - offset
        out.append(escape(text[position:]))
        return "".join(out)

    def _open(self) -> str:
        if self._given or not self.anchor:
            return '<mark class="passage-mark">'
        self._given = True
        return f'<mark class="passage-mark" id="{escape(self.anchor)}" tabindex="-1">'

    def touches(self, start: int, end: int) -> bool:
        return any(span.cut(start, end) for span in self.spans)


def part_html(part: Part, marks: Marks, image_url: Callable[[str], str]) -> SafeString:
    """One part as sanitised HTML. `image_url` gives the address of a stored picture by its key."""
    out: list[str] = []
    place: tuple[object, ...] | None = None
    recognised = False
    for piece in part.pieces:
        here = (piece.block.page, piece.block.sheet, piece.block.slide)
        if here != place and any(here):
            out.append(f'<div class="parsed__place">{escape(_place_name(piece.block))}</div>')
        if piece.block.ocr and not recognised:
            out.append(f'<div class="parsed__ocr">{escape(gettext("Read from a picture by text recognition"))}</div>')
        place, recognised = here, piece.block.ocr
        out.append(_piece_html(piece, marks, image_url))
    return sanitised("".join(out))


def sanitised(html: str) -> SafeString:
    """Only what the reader's own renderer makes passes: no scripts, styles, handlers, links, foreign pictures."""
    cleaned = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=set(), attribute_filter=_own_address)
    return mark_safe(cleaned)  # noqa: S308 (cleaned by an allow-list in this very line)


def _own_address(tag: str, name: str, value: str) -> str | None:
    if name in ("src", "href"):
        return value if value.startswith("/bases/") else None
    return value


def _place_name(block: Block) -> str:
    if block.page:
        return gettext("Page %(n)s") % {"n": block.page}
    if block.slide:
        return gettext("Slide %(n)s") % {"n": block.slide}
    return gettext("Sheet %(name)s") % {"name": block.sheet}


def _piece_html(piece: Piece, marks: Marks, image_url: Callable[[str], str]) -> str:
    block = piece.block
    text = block.text[piece.start - block.start : piece.end - block.start].rstrip("\n")
    if block.kind == "heading":
        level = min((block.level or 1) + 1, 6)
        return f'<h{level} id="t{piece.start}">{marks.dress(text, piece.start)}</h{level}>'
    if block.kind == "table" and text.lstrip().startswith("|"):
        return _table(piece, text, marks)
    if block.kind == "code":
        return _code(text, piece.start, marks)
    if block.kind == "list":
        return _list(text, piece.start, marks)
    if block.kind == "image":
        return _figure(block, text, piece.start, marks, image_url)
    inner = "<br>".join(marks.dress(line, offset) for offset, line in _lines(text, piece.start))
    if block.kind == "quote":
        return f"<blockquote><p>{inner}</p></blockquote>"
    if block.kind == "note":
        return f'<aside class="parsed__note"><p>{inner}</p></aside>'
    return f"<p>{inner}</p>"


def _lines(text: str, offset: int) -> Iterable[tuple[int, str]]:
    for line in text.split("\n"):
        yield offset, line
        offset += len(line) + 1


def _table(piece: Piece, text: str, marks: Marks) -> str:
    block = piece.block
    lines = [(offset, line) for offset, line in _lines(text, piece.start) if line.strip()]
    head = block.text.split("\n", 2)[:2]
    has_head = len(head) == 2 and bool(_RULE.match(head[1]))
    out: list[str] = []
    if has_head:
        first = piece.start == block.start
        # The head is repeated above a later piece of a long table: it is no part of the piece, so it bears no mark.
        row = _row(head[0], block.start, marks if first else Marks(), "th")
        out.append(f"<thead>{row}</thead>" if head[0].strip("| ") else "")
        lines = [(offset, line) for offset, line in lines if offset >= block.start + len(head[0]) + len(head[1]) + 1]
    body = "".join(_row(line, offset, marks, "td") for offset, line in lines if not _RULE.match(line))
    return f'<div class="parsed__table" tabindex="0"><table>{"".join(out)}<tbody>{body}</tbody></table></div>'


def _row(line: str, offset: int, marks: Marks, tag: str) -> str:
    cells = []
    position = 1 if line.startswith("|") else 0
    for match in [*_CELL_END.finditer(line, position), None]:
        end = match.start() if match else len(line)
        raw = line[position:end]
        if match or raw.strip():
            text = raw.strip()
            start = offset + position + len(raw) - len(raw.lstrip())
            cells.append(marks.dress(text, start).replace("\\|", "|"))
        position = end + 1
    scope = ' scope="col"' if tag == "th" else ""
    return "<tr>" + "".join(f"<{tag}{scope}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _code(text: str, offset: int, marks: Marks) -> str:
    lines = list(_lines(text, offset))
    if lines and lines[0][1].lstrip().startswith(("```", "~~~")):
        lines = lines[1:]
    if lines and lines[-1][1].strip() in {"```", "~~~", "````"}:
        lines = lines[:-1]
    if not lines:
        return ""
    start = lines[0][0]
    body = marks.dress("\n".join(line for _, line in lines), start)
    return f'<pre class="parsed__code" tabindex="0"><code>{body}</code></pre>'


@dataclass(slots=True)
class _Item:
    depth: int
    number: int | None
    html: str
    inner: list[_Item] = field(default_factory=list)


def _list(text: str, offset: int, marks: Marks) -> str:
    roots: list[_Item] = []
    open_items: list[_Item] = []
    for start, line in _lines(text, offset):
        match = _ITEM.match(line)
        if match is None:
            dressed = marks.dress(line, start)
            if open_items:
                open_items[-1].html += f"<br>{dressed}"
            elif line.strip():
                roots.append(_Item(0, None, dressed))
            continue
        number = int(match["number"]) if match["number"] else None
        item = _Item(
            len(match["indent"].expandtabs(4)), number, marks.dress(match["text"], start + match.start("text"))
        )
        while open_items and open_items[-1].depth >= item.depth:
            open_items.pop()
        (open_items[-1].inner if open_items else roots).append(item)
        open_items.append(item)
    return _items(roots)


def _items(items: Sequence[_Item]) -> str:
    out: list[str] = []
    ordered: bool | None = None
    for item in items:
        if ordered is not (item.number is not None):
            if ordered is not None:
                out.append("</ol>" if ordered else "</ul>")
            ordered = item.number is not None
            out.append("<ol>" if ordered else "<ul>")
        value = f' value="{item.number}"' if item.number is not None else ""
        inner = _items(item.inner) if item.inner else ""
        out.append(f"<li{value}>{item.html}{inner}</li>")
    if ordered is not None:
        out.append("</ol>" if ordered else "</ul>")
    return "".join(out)


def _figure(block: Block, text: str, offset: int, marks: Marks, image_url: Callable[[str], str]) -> str:
    caption = marks.dress(text, offset)
    if not block.image:
        return f"<p>{caption}</p>"
    alt = gettext("Picture in the document") if text == NO_ALT else text
    full = image_url(block.image)
    small = f"{full}{'&' if '?' in full else '?'}size=small"
    picture = f'<img src="{escape(small)}" alt="{escape(alt)}" loading="lazy">'
    caption = "" if text == NO_ALT else f"<figcaption>{caption}</figcaption>"
    return f'<figure><a href="{escape(full)}">{picture}</a>{caption}</figure>'
