"""Page furniture: running heads, running feet and page numbers, which are no part of the text.

Only what repeats goes: the first of equal lines is kept, and a number goes only where it counts pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from .paragraphs import Draft

ZONE = 0.12  # share of the page's height at its top and bottom
MIN_PAGES = 3
MAX_LENGTH = 160
_NUMBER_ONLY = re.compile(
    r"(?:共\s*\d{1,5}\s*页[,，\s]*)?(?:page|seite|p\.|第)?\s*[-–—·•|~]*\s*(?P<number>[1-9]\d{0,4})\s*页?\s*"
    r"(?:(?:/|of|von|,|，|、|\|)?\s*共?\s*\d{1,5}\s*页?)?\s*[-–—·•|~]*",
    re.IGNORECASE,
)
_LINES = ("paragraph", "list")
_ROMAN = re.compile(r"x{0,3}(?:ix|iv|v?i{0,3})", re.IGNORECASE)
_NUMBER_AT_EDGE = re.compile(r"^(?P<first>[1-9]\d{0,4})(?=[\s|])|(?<=[\s|])(?P<last>[1-9]\d{0,4})(?:\s?/\s?\d{1,5})?$")


def without_furniture(pages: Sequence[list[Draft]], heights: Sequence[float]) -> tuple[list[list[Draft]], int]:
    """Drafts page by page without repeated heads, feet and page numbers, and how many were left out."""
    equal: dict[str, list[tuple[int, Draft]]] = defaultdict(list)
    numbered: dict[tuple[str, int], list[tuple[int, Draft]]] = defaultdict(list)
    for index, (drafts, height) in enumerate(zip(pages, heights, strict=True)):
        for draft in _edge_drafts(drafts, height):
            text = " ".join(draft.text.split())
            equal[text].append((index, draft))
            if (found := _page_number(text)) is not None:
                number, rest = found
                numbered[rest, number - draft.page].append((index, draft))
    going: set[int] = set()
    for text, places in equal.items():
        if len(places) >= MIN_PAGES and not text.isdecimal():
            going.update(id(draft) for _, draft in places[1:])
    counted = Counter(offset for (_, offset), places in numbered.items() for _ in places)
    for (rest, offset), places in numbered.items():
        if len(places) >= 2 and (not rest or counted[offset] >= MIN_PAGES):
            going.update(id(draft) for _, draft in (places[1:] if rest else places))
    kept: list[list[Draft]] = []
    for drafts in pages:
        left = [draft for draft in drafts if id(draft) not in going]
        kept.append(left or drafts)
    counts = Counter(len(before) - len(after) for before, after in zip(pages, kept, strict=True))
    return kept, sum(size * times for size, times in counts.items())


def _edge_drafts(drafts: Sequence[Draft], height: float) -> list[Draft]:
    """The two outermost short drafts at the top and at the bottom of a page, and turned or slanted marks."""
    short = [draft for draft in drafts if draft.lines <= 2 and len(draft.text) <= MAX_LENGTH and draft.kind in _LINES]
    upper = sorted((draft for draft in short if draft.box[3] <= ZONE * height), key=lambda draft: draft.box[1])[:3]
    lower = sorted((draft for draft in short if draft.box[1] >= (1 - ZONE) * height), key=lambda draft: -draft.box[3])[
        :3
    ]
    marks = [draft for draft in short if not draft.upright]
    return list({id(draft): draft for draft in (*upper, *lower, *marks)}.values())


def _page_number(text: str) -> tuple[int, str] | None:
    """The number that may count pages, and the rest of the line ("" for a bare number)."""
    if found := _NUMBER_ONLY.fullmatch(text):
        return int(found["number"]), ""
    if 0 < len(text) <= 6 and _ROMAN.fullmatch(text):
        return _roman(text.lower()), ""
    if found := _NUMBER_AT_EDGE.search(text):
        return int(found["first"] or found["last"]), text[: found.start()] + "#" + text[found.end() :]
    return None


def _roman(text: str) -> int:
    """The value of a small Roman number: front matter is counted in them."""
    values = [{"i": 1, "v": 5, "x": 10}[char] for char in text]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))
