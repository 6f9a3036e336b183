"""What was recognised on one page or picture, and its shape as JSON. Checked when read: it comes from the sandbox."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from knowledge.ingestion.parsers.characters import storable

MOST_LINES = 10_000
LONGEST_LINE = 4_000

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `box` is (left, top, right, bottom) after the page was turned level; `score` 0–1."""

    text: str
    box: Box
    score: float


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """The lines of a page of `width` × `height` (points in a PDF, pixels in a picture).

    `skew` is the angle in radians, clockwise, by which the page's lines stand askew: turning a point
    of a line's box by it around the page's top left corner gives its place on the page.
    """

    width: float
    height: float
    skew: float
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def on_page(self, box: Box) -> Box:
        """The upright box around a level box's place on the page, cut at the page's edges."""
        left, top, right, bottom = box
        cosine, sine = math.cos(self.skew), math.sin(self.skew)
        corners = [(x * cosine - y * sine, x * sine + y * cosine) for x in (left, right) for y in (top, bottom)]
        xs, ys = [x for x, _ in corners], [y for _, y in corners]
        return (
            max(0.0, min(xs)),
            max(0.0, min(ys)),
            min(self.width, max(xs)),
            min(self.height, max(ys)),
        )

    def as_json(self) -> dict[str, Any]:
        """JSON-ready; coordinates to a tenth."""
        return {
            "width": round(self.width, 1),
            "height": round(self.height, 1),
            "skew": round(self.skew, 5),
            "lines": [[line.text, *(round(edge, 1) for edge in line.box), round(line.score, 3)] for line in self.lines],
        }


def page_from_json(value: Any) -> RecognisedPage:
    """The opposite of `as_json`. Raises `ValueError` for anything else."""
    try:
        lines = tuple(_line(row) for row in value["lines"][:MOST_LINES])
        numbers = [float(value[name]) for name in ("width", "height", "skew")]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError("no recognised page") from error
    if not all(map(math.isfinite, numbers)):
        raise ValueError("no recognised page")
    return RecognisedPage(numbers[0], numbers[1], numbers[2], lines)


def page_from_text(text: str) -> RecognisedPage:
    """As `page_from_json`, from a string."""
    try:
        return page_from_json(json.loads(text))
    except RecursionError as error:
        raise ValueError("no recognised page") from error


def _line(row: Any) -> Line:
    text, left, top, right, bottom, score = row
    edges = [float(left), float(top), float(right), float(bottom), float(score)]
    if not isinstance(text, str) or not all(map(math.isfinite, edges)):
        raise ValueError("no recognised line")
    return Line(storable(text)[:LONGEST_LINE], (edges[0], edges[1], edges[2], edges[3]), edges[4])
