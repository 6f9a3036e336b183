"""What goes on over a page break: paragraphs in the middle of a sentence, tables in the middle of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .cleaning import is_cjk_char
from .paragraphs import Draft, joined_lines

_TERMINAL = tuple(".。!！?？:：;；”」』")
NEAR_EDGE = 0.25  # share of the page's height
SAME_EDGE = 4.0  # points


def over_page_breaks(pages: Sequence[Sequence[Draft]], heights: Sequence[float]) -> list[Draft]:
    """All drafts in order. A paragraph cut by a page break is one draft on its first page; a table that goes on
    stays on its page and gets the head row of its beginning."""
    flow: list[Draft] = []
    for drafts, height in zip(pages, heights, strict=True):
        body = list(drafts)
        if flow and body and _continues(flow[-1], body[0]):
            before = flow[-1]
            flow[-1] = replace(before, text=joined_lines(before.text, body[0].text), lines=before.lines + body[0].lines)
            del body[0]
        elif flow and body and _table_continues(flow[-1], body[0], heights, height):
            body[0] = replace(body[0], text=_with_head(flow[-1].text, body[0].text))
        flow.extend(body)
    return flow


def _continues(before: Draft, after: Draft) -> bool:
    """A paragraph that clearly goes on at the top of the next page: a full last line, no end of sentence."""
    if before.kind != "paragraph" or after.kind != "paragraph" or after.page != before.page + 1:
        return False
    if not (before.upright and after.upright and before.tail_full and before.lines > 1):
        return False
    if abs(before.em - after.em) > 0.05 * before.em or before.bold != after.bold or before.text.endswith(_TERMINAL):
        return False
    first = after.text[:1]
    return first.islower() or (is_cjk_char(first) and is_cjk_char(before.text[-1]))


def _table_continues(before: Draft, after: Draft, heights: Sequence[float], height: float) -> bool:
    """A table at the foot of a page and one of the same width and columns at the head of the next."""
    if before.kind != "table" or after.kind != "table" or after.page != before.page + 1:
        return False
    if before.box[3] < (1 - NEAR_EDGE) * heights[before.page - 1] or after.box[1] > NEAR_EDGE * height:
        return False
    if abs(before.box[0] - after.box[0]) > SAME_EDGE or abs(before.box[2] - after.box[2]) > SAME_EDGE:
        return False
    return _rule(before.text) == _rule(after.text)


def _rule(table: str) -> str:
    return table.split("\n", 2)[1]


def _with_head(before: str, after: str) -> str:
    head, rule = before.split("\n", 2)[:2]
    first, _, *rest = after.split("\n")
    return after if first == head else "\n".join([head, rule, first, *rest])
