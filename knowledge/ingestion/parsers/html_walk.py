"""HTML tree to blocks: what counts as a paragraph, a list, a table or noise in HTML, and in all that becomes HTML.

Markdown, e-mail and EPUB go through here too. The walk is iterative, so that depth costs no stack.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from knowledge.ingestion.blocks import Block, BlockKind, ParseContext
from knowledge.ingestion.parsers.characters import figures
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.html_inline import formula, label
from knowledge.ingestion.parsers.html_tables import is_layout, own_rows, table_text
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.outline import Outline

Node = Any  # selectolax ships no precise types
Fetch = Callable[[str], bytes | None]

DROPPED = frozenset(
    {
        "head", "script", "style", "template", "iframe", "embed", "applet", "canvas", "audio", "video", "datalist",
        "rp", "rt", "annotation", "annotation-xml", "-comment", "!doctype",
    }
)  # fmt: skip
INLINE = frozenset(
    {
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
        "img", "ins", "kbd", "label", "map", "mark", "math", "meter", "mi", "mn", "mo", "mrow", "msub", "msup", "nobr",
        "output", "picture", "progress", "q", "ruby", "s", "samp", "small", "source", "span", "strike", "strong", "sub",
        "sup", "time", "tt", "u", "var", "wbr", "br", "input", "select", "option", "svg", "text", "tspan", "o:p",
    }
)  # fmt: skip
LISTS = frozenset({"ul", "ol", "menu", "dir", "dl"})
HEADINGS = {f"h{level}": level for level in range(1, 7)}
NOISE_CLASSES = frozenset({"footnote-backref", "headerlink", "anchorjs-link"})
MAX_LINKS = 5  # a block with more links than this is a menu, and the addresses only noise
MAX_INDENT = 12
MAX_NESTING = 10
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")
_WIDE = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
_CJK_BREAK = re.compile(rf"(?<={_WIDE})[ \t]*\r?\n[ \t]*(?={_WIDE})")
_AROUND_BREAK = re.compile(r" *\n *")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|highlight-source|brush:)[-: ]?\s*([\w+#.-]+)")
_PLEA = re.compile(
    r"(?:enable|turn on|activate|requires?|needs?|without|启用|开启|打开|啟用).{0,40}javascript"
    r"|javascript.{0,40}(?:enabled|disabled|required|启用|开启|啟用)",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"<[^<>]*>")
_FENCE = re.compile(r"`{3,}")


def descend(root: Node, enter: Callable[[Node], bool], leave: Callable[[Node], None]) -> None:
    """Visit `root` and all below it in document order; `enter` says whether to go inside."""
    end = root.mem_id
    node = root
    while True:
        child = node.child if enter(node) else None
        if child is not None:
            node = child
            continue
        while True:
            leave(node)
            if node.mem_id == end:
                return
            following = node.next
            if following is not None:
                node = following
                break
            node = node.parent


class Walker:
    """Collects blocks and pictures from one or more trees.

    `fetch(address)` gives the bytes of a picture that stands inside the document, or None (a remote
    picture never loads: only its alt text stays).
    """

    def __init__(self, context: ParseContext, fetch: Fetch) -> None:
        self.blocks: list[Block] = []
        self.pictures = Pictures(context)
        self.outline = Outline()
        self._fetch = fetch
        self._max_cells = context.max_cells
        self._inline: list[str] = []
        self._links: list[str] = []
        self._shown: list[tuple[str, str]] = []  # key and alt text of pictures that follow the present block
        self.base = ""  # what relative addresses of the page are relative to
        self._figures: list[int] = []  # where open `sup` and `sub` begin in `_inline`
        # Open lists: their tag, how they count, the number of the present item, and the step to the next.
        self._levels: list[tuple[str, str | None, int, int]] = []
        self._lines: list[str] = []
        self._marker = ""
        self._nesting = 0  # tables inside cells
        self._quotes = 0
        self._notes = 0
        self._menus = 0

    def walk(self, root: Node) -> None:
        """Add what `root` holds."""
        descend(root, self._enter, self._leave)
        self._flush()
        self._end_list()

    def _enter(self, node: Node) -> bool:
        tag = node.tag
        if tag == "-text":
            self._inline.append(_running(node.text_content or ""))
            return False
        if tag == "noframes":  # its markup is text to the tree builder
            self._inline.append(_running(_MARKUP.sub(" ", node.text() or "")))
            return False
        if tag in DROPPED or (tag == "noscript" and _begs_for_scripts(node)):
            return False
        if tag in INLINE:
            return self._enter_inline(tag, node)
        self._flush()
        if tag == "pre":
            self._code(node)
            return False
        if tag == "table" and not is_layout(node):
            self._table(node)
            return False
        self._enter_block(tag, node)
        return True

    def _enter_inline(self, tag: str, node: Node) -> bool:
        if tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._image(node.attributes)
        elif tag == "a":
            if NOISE_CLASSES & set((node.attributes.get("class") or "").split()):
                return False
            self._link(node.attributes.get("href"))
        elif tag == "math":
            self._inline.append(formula(node))
            return False
        elif tag in ("sup", "sub"):
            self._figures.append(len(self._inline))
        return tag != "input"

    def _leave_inline(self, tag: str) -> None:
        if tag == "option":
            self._inline.append(" ")
        elif tag in ("sup", "sub") and self._figures:
            start = self._figures.pop()
            if start < len(self._inline):
                self._inline[start:] = [figures("".join(self._inline[start:]), raised=tag == "sup")]

    def _enter_block(self, tag: str, node: Node) -> None:
        if _is_list(tag, node):
            step = -1 if "reversed" in node.attributes else 1
            usual = len(node.css("li")) if step < 0 else 1
            start = _number(node.attributes.get("start"), usual)
            self._levels.append((tag, node.attributes.get("type"), start - step, step))
        elif tag == "li" and self._levels:
            kind, counting, number, step = self._levels[-1]
            number = _number(node.attributes.get("value"), number + step)
            self._levels[-1] = (kind, counting, number, step)
            self._marker = f"{label(number, counting)}. " if kind == "ol" else "- "
        elif tag == "dt" and self._levels:
            self._marker = "- "
        elif tag in HEADINGS:
            self._end_list()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "nav":
            self._menus += 1
        elif tag == "section" and "footnotes" in (node.attributes.get("class") or ""):
            self._notes += 1

    def _leave(self, node: Node) -> None:
        tag = node.tag
        self._leave_inline(tag)
        if tag in INLINE or tag in DROPPED or tag == "-text":
            return
        if tag in HEADINGS:
            self._heading(HEADINGS[tag])
            return
        self._flush()
        if _is_list(tag, node):
            if self._levels:
                self._levels.pop()
            if not self._levels:
                self._end_list()
        elif tag in ("li", "dt"):
            self._marker = ""
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag == "nav":
            self._menus -= 1
        elif tag == "section" and "footnotes" in (node.attributes.get("class") or ""):
            self._notes -= 1

    def _take(self, *, addresses: bool = True) -> str:
        text = _AROUND_BREAK.sub("\n", "".join(self._inline)).strip()
        self._inline.clear()
        links = [link for link in dict.fromkeys(self._links) if link not in text]
        self._links.clear()
        if addresses and text and len(links) <= MAX_LINKS and not self._menus:
            text = " ".join([text, *(f"<{link}>" for link in links)])
        return re.sub(" {2,}", " ", text)

    def _flush(self) -> None:
        """End the present run of inline text: a line of the open list, or a paragraph."""
        text = self._take()
        if text and self._levels:
            indent = "  " * min(len(self._levels) - 1, MAX_INDENT)
            hang = indent + (" " * len(self._marker) or "  ")
            first = indent + self._marker if self._marker else hang
            self._lines.append(first + text.replace("\n", "\n" + hang))
            self._marker = ""
        elif text:
            self._add("note" if self._notes else "quote" if self._quotes else "paragraph", text)
        if self._shown:
            self._end_list()
            self._show_pictures()

    def _end_list(self) -> None:
        if self._lines:
            self._add("note" if self._notes else "list", textwrap.dedent("\n".join(self._lines)))
            self._lines.clear()

    def _show_pictures(self) -> None:
        for key, alt in self._shown:
            self._add("image", alt or NO_ALT, image=key)
        self._shown.clear()

    def _heading(self, level: int) -> None:
        block = self.outline.heading(level, self._take(addresses=False))
        if block:
            self.blocks.append(block)
        self._show_pictures()

    def _code(self, node: Node) -> None:
        self._end_list()
        text = "".join(_raw_text(node)).strip("\n")
        if text.strip():
            self._add("code", fenced(text, _language(node)))

    def _table(self, node: Node) -> None:
        self._end_list()
        rows, caption = own_rows(node)
        if caption:
            self._add("paragraph", caption)
        text = table_text(rows, self._cell, self._max_cells)
        if text:
            self._add("table", text)
        self._show_pictures()

    def _cell(self, node: Node) -> str:
        """All text of a table cell, blocks inside it divided by line breaks."""

        def enter(part: Node) -> bool:
            tag = part.tag
            if tag == "-text":
                self._inline.append(_running(part.text_content or ""))
                return False
            if tag in DROPPED:
                return False
            if tag in INLINE:
                return self._enter_inline(tag, part)
            if tag == "table" and self._nesting < MAX_NESTING:
                self._inline.append("\n" + self._nested(part) + "\n")
                return False
            self._inline.append("\n")
            return True

        def leave(part: Node) -> None:
            tag = part.tag
            self._leave_inline(tag)
            if tag not in INLINE and tag not in DROPPED and tag != "-text":
                self._inline.append("\n")

        descend(node, enter, leave)
        return self._take()

    def _nested(self, table: Node) -> str:
        """A table inside a cell as running text: cells by commas, rows by semicolons."""
        outer, self._inline = self._inline, []
        self._nesting += 1
        rows, caption = own_rows(table)
        lines = (", ".join(filter(None, (" ".join(self._cell(cell).split()) for cell in row))) for row in rows)
        text = "; ".join(filter(None, (caption, *lines)))
        self._nesting -= 1
        self._inline = outer
        return text

    def _image(self, attributes: dict[str, str | None]) -> None:
        alt = " ".join((attributes.get("alt") or attributes.get("title") or "").split())
        address = attributes.get("src") or attributes.get("data-src") or ""
        data = self._fetch(address) if address else None
        key = self.pictures.add(data, alt) if data else None
        if key:
            self._shown.append((key, alt))
        elif alt:
            self._inline.append(f" {alt} ")

    def _link(self, address: str | None) -> None:
        address = (address or "").strip()
        if self.base and address and not address.startswith("#"):
            with suppress(ValueError):
                address = urljoin(self.base, address)
        if address.startswith(("http://", "https://", "mailto:")) and len(address) <= 500 and " " not in address:
            self._links.append(address.removeprefix("mailto:"))

    def _add(self, kind: BlockKind, text: str, *, image: str | None = None) -> None:
        self.blocks.append(Block(kind=kind, text=text, heading_path=self.outline.path, image=image))


def _is_list(tag: str, node: Node) -> bool:
    """Lists, and definitions as a list of terms; a `dl` without terms only indents."""
    return tag in LISTS and (tag != "dl" or node.css_first("dt") is not None)


def _running(text: str) -> str:
    """Running text: any white space is one space, a line break inside Chinese or Japanese nothing at all."""
    return _SPACE.sub(" ", _CJK_BREAK.sub("", text) if "\n" in text else text)


def fenced(code: str, language: str = "") -> str:
    """`code` between fences that are longer than any inside it."""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(code))])
    return f"{fence}{language}\n{code}\n{fence}"


def _raw_text(node: Node) -> Iterator[str]:
    parts: list[str] = []

    def enter(part: Node) -> bool:
        if part.tag == "-text":
            parts.append((part.text_content or "").replace("\xa0", " "))
        elif part.tag == "br":
            parts.append("\n")
        return part.tag not in DROPPED

    descend(node, enter, lambda part: None)
    yield from parts


def _language(node: Node) -> str:
    inner = node.child
    for candidate in (node, inner):
        if candidate is not None and candidate.tag in ("pre", "code"):
            found = _LANGUAGE.search(candidate.attributes.get("class") or "")
            if found:
                return found[1]
    return ""


def _begs_for_scripts(node: Node) -> bool:
    """Whether a `noscript` only asks to turn scripts on. Others may hold the page, also by a missing end tag."""
    text = node.text() or ""
    return len(text) < 300 and _PLEA.search(text) is not None


def _number(value: str | None, otherwise: int) -> int:
    try:
        return max(-(10**9), min(int(value or ""), 10**9))
    except ValueError:
        return otherwise
