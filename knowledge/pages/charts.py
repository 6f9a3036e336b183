"""Lines over time as SVG that the server draws: where each point stands, which ticks there are, what the title says.

Drawn in units of the view box; colours, dashes and sizes are classes of `css/evaluation.css`. A run that lacks a
series leaves a gap in its line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 14, 24
# As many series as differ in colour, dash and shape.
MOST_SERIES = 4


@dataclass(frozen=True, slots=True)
class Dot:
    """One value: its place in the view box as text, its shape as the data of a path, and what it says."""

    place: str
    shape: str
    value: float
    at: datetime
    shown: str


@dataclass(frozen=True, slots=True)
class Series:
    """A line: `paths` are its unbroken stretches as SVG points; `style` 1 to 4 chooses colour, dash and shape."""

    name: str
    style: int
    dots: tuple[Dot, ...]
    paths: tuple[str, ...]

    @property
    def key(self) -> str:
        """The shape in the middle of the legend's line."""
        return _shape(self.style, 14, 6)


@dataclass(frozen=True, slots=True)
class Tick:
    """A horizontal line of the grid with its value."""

    y: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws; `rows` is the same as a table: (moment, values in the order of `series`)."""

    key: str
    unit: str
    series: tuple[Series, ...]
    ticks: tuple[Tick, ...]
    first: datetime
    last: datetime
    rows: tuple[tuple[datetime, tuple[str, ...]], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def chart(
    key: str, unit: str, names: Sequence[str], points: Sequence[tuple[datetime, dict[str, float]]]
) -> Chart | None:
    """A chart of `points` (oldest first: moment, value by the series' name); None when there is nothing to draw."""
    names = [name for name in names if any(name in values for _, values in points)][:MOST_SERIES]
    if not names:
        return None
    found = [value for _, values in points for name, value in values.items() if name in names]
    low, high, step = scale(min(found), max(found), share=unit == "")
    places = _places(len(points))

    def height_of(value: float) -> float:
        return round(_TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - (value - low) / (high - low)), 1)

    series = []
    for style, name in enumerate(names, 1):
        dots: list[Dot | None] = [
            _dot(style, x, height_of(values[name]), at, values[name], unit) if name in values else None
            for x, (at, values) in zip(places, points, strict=True)
        ]
        series.append(Series(name, style, tuple(dot for dot in dots if dot), tuple(_stretches(dots))))
    ticks = [low + step * number for number in range(round((high - low) / step) + 1)]
    rows = tuple(
        (at, tuple(shown(values[name], unit) if name in values else "—" for name in names)) for at, values in points
    )
    lines = tuple(Tick(str(height_of(value)), shown(value, unit)) for value in ticks)
    return Chart(key, unit, tuple(series), lines, points[0][0], points[-1][0], rows)


def _dot(style: int, x: float, y: float, at: datetime, value: float, unit: str) -> Dot:
    return Dot(f"{x},{y}", _shape(style, x, y), value, at, shown(value, unit))


# Circle, square, triangle, diamond, drawn around the point.
_SHAPES = {
    1: "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
    2: "m-3.5 -3.5h7v7h-7z",
    3: "m0 -5l5 9h-10z",
    4: "m0 -5l5 5l-5 5l-5 -5z",
}


def _shape(style: int, x: float, y: float) -> str:
    return f"M{x} {y}{_SHAPES[style]}"


def shown(value: float, unit: str) -> str:
    """A value as it is written: shares with two digits after the point, milliseconds whole."""
    return f"{value:.2f}" if unit == "" else f"{value:.0f}"


def _places(number: int) -> list[float]:
    if number == 1:
        return [(_LEFT + WIDTH - _RIGHT) / 2]
    room = WIDTH - _RIGHT - _LEFT - 12
    return [round(_LEFT + 6 + room * place / (number - 1), 1) for place in range(number)]


def scale(least: float, most: float, *, share: bool) -> tuple[float, float, float]:
    """(bottom, top, step) that hold all values on round numbers; shares end at 1, times begin at 0."""
    bottom = least if share else 0.0
    width = max(most - bottom, 0.12 if share else 1.0)
    rough = width / 3
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    low = math.floor(bottom / step + 1e-9) * step
    high = math.ceil(most / step - 1e-9) * step
    if high <= low:
        high = low + step
    if share and high > 1:
        high = 1.0
        low = min(low, high - step)
        step = (high - low) / max(1, round((high - low) / step))
    return round(low, 6), round(high, 6), step


def _stretches(dots: Sequence[Dot | None]) -> list[str]:
    found: list[list[str]] = [[]]
    for dot in dots:
        if dot is None:
            found.append([])
        else:
            found[-1].append(dot.place)
    return [" ".join(points) for points in found if len(points) > 1]
