"""Headings: from the document's outline (bookmarks), else from font size, weight and Chinese chapter marks.

The outline is matched to the text by page and place, never by searching the document for a title,
so a title that recurs in the body or names two chapters is right each time.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pypdfium2 as pypdfium
import pypdfium2.raw as pdfium

from knowledge.ingestion.blocks import Block

from .cleaning import cjk_count
from .paragraphs import LEADER, SENTENCE_END, Draft
from .strings import title_of

MAX_BOOKMARKS = 20_000
MAX_DEPTH = 6
MAX_LEVEL = 9
LARGER = 1.12  # times the body's font size
MAX_LINES = 3
MAX_LENGTH = 120
_CHAPTER = re.compile(r"第[一二三四五六七八九十百零〇\d]{1,6}([编篇部章节])(?:[\s　:：]|$|(?=[\u4e00-\u9fff]))")
_CHAPTER_RANK = {"编": 1, "篇": 1, "部": 1, "章": 2, "节": 3}
_NUMBERING = re.compile(
    r"(?:chapter|appendix|part|section|第)?[\divxa-z一二三四五六七八九十.\-]{0,8}[章节篇部编]?[:：.、)]?", re.IGNORECASE
)
# Where the views of a bookmark's target hold the top edge.
_TOP_IN_VIEW = {
    pdfium.PDFDEST_VIEW_XYZ: 1,
    pdfium.PDFDEST_VIEW_FITH: 0,
    pdfium.PDFDEST_VIEW_FITBH: 0,
    pdfium.PDFDEST_VIEW_FITR: 3,
}
_LOOSE = re.compile(r"[\s\-‐‑–—]+")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """One entry of the outline: `level` from 1, `page` from 1, `top` in points from the page's top or None."""

    title: str
    level: int
    page: int
    top: float | None


def read_outline(document: pypdfium.PdfDocument, heights: Sequence[float]) -> list[Bookmark]:
    """The outline in order; entries without a title or without a page in this document are left out."""
    found: list[Bookmark] = []
    for count, entry in enumerate(document.get_toc(max_depth=MAX_DEPTH)):
        if count >= MAX_BOOKMARKS:
            break
        title = " ".join(title_of(entry.raw).split())
        target = entry.get_dest()
        page = target.get_index() if target is not None else None
        if not title or page is None or not 0 <= page < len(heights):
            continue
        mode, view = target.get_view()
        at = _TOP_IN_VIEW.get(mode)
        y = view[at] if at is not None and len(view) > at else None
        top = heights[page] - y if y else None
        found.append(Bookmark(title[:300], entry.level + 1, page + 1, top))
    return found


def blocks_with_paths(drafts: Sequence[Draft], outline: Sequence[Bookmark]) -> list[Block]:
    """Drafts in reading order to blocks: headings recognised, each block with the titles above it."""
    matched, split = _match_outline(drafts, outline)
    ranks = _by_appearance(split, {id(draft) for draft in matched.values()})
    marks = {id(draft): mark for mark, draft in matched.items()}
    waiting = _unmatched(outline, matched)
    next_mark = next(waiting, None)
    tree = _Tree()
    for draft in split:
        while next_mark is not None and _has_passed(outline[next_mark], draft):
            tree.enter(outline[next_mark].level, outline[next_mark].title)
            tree.depth = outline[next_mark].level
            next_mark = next(waiting, None)
        mark = marks.get(id(draft))
        if mark is not None:
            tree.depth = outline[mark].level
            tree.heading(draft, tree.depth)
        elif id(draft) in ranks:
            tree.heading(draft, min(tree.depth + ranks[id(draft)], MAX_LEVEL))
        else:
            tree.body(draft)
    tree.close_list()
    return tree.blocks


class _Tree:
    """Blocks so far, the titles that stand above the next one, and list items not yet written."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.path: list[tuple[int, str]] = []
        self.depth = 0  # level of the last outline entry passed
        self.items: list[Draft] = []

    def enter(self, level: int, title: str) -> None:
        self.close_list()
        self.path = [*(entry for entry in self.path if entry[0] < level), (level, title)]

    def heading(self, draft: Draft, level: int) -> None:
        self.close_list()
        self.path = [entry for entry in self.path if entry[0] < level]
        self._write(replace(draft, kind="heading", level=level))
        self.path.append((level, draft.text))

    def body(self, draft: Draft) -> None:
        if self.items and not _same_list(self.items[-1], draft):
            self.close_list()
        if draft.kind == "list":
            self.items.append(draft)
        else:
            self._write(draft)

    def close_list(self) -> None:
        if self.items:
            self._write(_as_list(self.items))
            self.items = []

    def _write(self, draft: Draft) -> None:
        left, top, right, bottom = (round(value, 1) for value in draft.box)
        path = tuple(title for _, title in self.path)
        box = (left, top, right, bottom)
        self.blocks.append(
            Block(
                draft.kind, draft.text, draft.level, path, page=draft.page, bbox=box, image=draft.image, ocr=draft.ocr
            )
        )


def _same_list(before: Draft, after: Draft) -> bool:
    return after.kind == "list" and after.page == before.page and after.upright == before.upright


def _as_list(items: Sequence[Draft]) -> Draft:
    """Items that follow each other as one list: a line each, indented by where they begin."""
    if len(items) == 1:
        return items[0]
    left = min(item.indent for item in items)
    step = 1.2 * max(items[0].em, 1.0)
    lines = ["  " * min(int((item.indent - left) / step), 6) + item.text for item in items]
    boxes = [item.box for item in items]
    box = (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes))
    return replace(items[0], text="\n".join(lines), box=box)


def _has_passed(mark: Bookmark, draft: Draft) -> bool:
    if draft.page != mark.page:
        return draft.page > mark.page
    return mark.top is None or draft.box[3] > mark.top - 2


def _unmatched(outline: Sequence[Bookmark], matched: dict[int, Draft]) -> Iterator[int]:
    left = [i for i in range(len(outline)) if i not in matched]
    return iter(sorted(left, key=lambda i: (outline[i].page, outline[i].top or 0.0)))


def _plain(text: str) -> str:
    return _LOOSE.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _match_outline(drafts: Sequence[Draft], outline: Sequence[Bookmark]) -> tuple[dict[int, Draft], list[Draft]]:
    """Bookmark index → its draft; and the drafts, where a heading ran into its text cut in two."""
    by_page: dict[int, list[int]] = defaultdict(list)
    for i, draft in enumerate(drafts):
        by_page[draft.page].append(i)
    cut: dict[int, list[Draft]] = {}
    matched: dict[int, Draft] = {}
    taken: set[int] = set()
    for number, mark in enumerate(outline):
        wanted = _plain(mark.title)
        best: tuple[float, int] | None = None
        for i in by_page[mark.page]:
            draft = drafts[i]
            if i in taken or draft.kind not in ("paragraph", "list"):
                continue
            text = _plain(draft.text[: 2 * len(mark.title) + 40])
            if not _names(text, wanted, draft.lines):
                continue
            exact = 0.0 if len(text) <= len(wanted) else 20.0
            distance = exact + (
                abs(draft.box[1] - mark.top) if mark.top is not None else float(i - by_page[mark.page][0])
            )
            if best is None or distance < best[0]:
                best = (distance, i)
        if best is None:
            continue
        i = best[1]
        taken.add(i)
        parts = _cut(drafts[i], mark.title)
        cut[i] = parts
        matched[number] = parts[0]
    return matched, [part for i, draft in enumerate(drafts) for part in cut.get(i, [draft])]


def _names(text: str, title: str, lines: int) -> bool:
    """Whether a draft's text is the title, begins with it, or is it with a number more or less in front."""
    if text.startswith(title):
        return True
    if lines > 2:
        return False
    if text.endswith(title):
        return len(text) - len(title) <= 12 and bool(_NUMBERING.fullmatch(text[: len(text) - len(title)]))
    return len(text) >= 4 and title.endswith(text)


def _cut(draft: Draft, title: str) -> list[Draft]:
    """The draft as heading and rest, when the rest is more than the end of the same line."""
    wanted = len("".join(title.split()))
    seen = 0
    for at, char in enumerate(draft.text):
        if seen >= wanted:
            rest = draft.text[at:].strip()
            if draft.lines > 1 and len(rest) > 20:
                return [
                    replace(draft, text=draft.text[:at].strip(), lines=1),
                    replace(draft, text=rest, lines=draft.lines - 1),
                ]
            break
        seen += not char.isspace()
    return [draft]


def _by_appearance(drafts: Sequence[Draft], known: set[int]) -> dict[int, int]:
    """id of a draft → rank (1 = highest) for drafts that look like headings beside the body text."""
    weights: Counter[float] = Counter()
    bold = total = 0
    for draft in drafts:
        if draft.kind in ("paragraph", "list") and draft.em > 0:
            weights[round(draft.em * 2) / 2] += len(draft.text)
            total += len(draft.text)
            bold += len(draft.text) * draft.bold
    if not total:
        return {}
    body = weights.most_common(1)[0][0]
    keys: dict[int, tuple[int, float]] = {}
    for draft, following in zip(drafts, [*drafts[1:], None], strict=True):
        if id(draft) in known or not _may_be_heading(draft):
            continue
        chapter = _CHAPTER.match(draft.text)
        if draft.em >= LARGER * body and draft.em > body + 0.9:
            keys[id(draft)] = (0, -round(draft.em * 2) / 2)
        elif chapter and draft.lines == 1 and len(draft.text) <= 40:
            keys[id(draft)] = (1, float(_CHAPTER_RANK[chapter[1]]))
        elif (
            draft.bold and bold < 0.4 * total and draft.em >= 0.95 * body and following is not None and draft.lines <= 2
        ):
            keys[id(draft)] = (2, 0.0)
    ranks = {key: min(rank, MAX_DEPTH) for rank, key in enumerate(sorted(set(keys.values())), start=1)}
    return {draft: ranks[key] for draft, key in keys.items()}


def _may_be_heading(draft: Draft) -> bool:
    if draft.kind not in ("paragraph", "list") or not draft.upright or draft.lines > MAX_LINES:
        return False
    text = draft.text.strip()
    length = len(text) + cjk_count(text)
    if not 2 <= length <= MAX_LENGTH or LEADER in text or text[0] in "•▪●■◆▶":
        return False
    return not text.endswith(tuple(set(SENTENCE_END) - set("?？!！"))) and len(_WORD.findall(text)) >= max(
        1, len(text) // 3
    )
