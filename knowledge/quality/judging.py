"""Whether a passage found is what a case expects, and at which ranks a ranking finds it.

A passage answers an expected text when the shorter of the two stands, for the most part, in the longer: compared by
runs of four characters without spaces and punctuation. So it does not matter how the document is split.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.evaluation import DEPTH, judge
from knowledge.models import CaseTarget
from knowledge.retrieval import Hit
from knowledge.text import normalise

_BETWEEN = re.compile(r"[\W_]+")
_RUN = 4
# Of the shorter text, so much has to stand in the longer one.
SAME = 0.6


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a judged ranking. `grade` 0: not expected."""

    document: str
    chunk: int
    relevance: float
    grade: int


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranking against what is expected. `scores` in the order of `evaluation.MEASURES`; `rank` of the first good."""

    places: tuple[Place, ...]
    scores: tuple[float, ...]

    @property
    def rank(self) -> int | None:
        return next((place for place, row in enumerate(self.places, 1) if row.grade), None)


def squeezed(text: str) -> str:
    """The letters and digits of a text, in the normal form of index and query."""
    return _BETWEEN.sub("", normalise(text).text)


def holds(passage: str, snippet: str) -> bool:
    """Whether one of two squeezed texts stands, for the most part, in the other."""
    short, long = sorted((passage, snippet), key=len)
    if not short:
        return False
    if short in long:
        # A passage of a few letters says nothing about a long expected text.
        return len(snippet) <= len(passage) or len(passage) >= _RUN * 5
    runs = _runs(short)
    return len(short) >= _RUN * 5 and len(runs & _runs(long)) >= SAME * len(runs)


def _runs(text: str) -> set[str]:
    return {text[at : at + _RUN] for at in range(max(1, len(text) - _RUN + 1))}


def judged(hits: Sequence[Hit], targets: Sequence[CaseTarget]) -> Judged:
    """The ranking of a case. `targets` are its live ones, their documents at hand.

    When only whole documents are expected, each document counts once, by its best passage. A passage that
    finds again what an earlier one has found takes no rank.
    """
    wanted = [(row.document.uid if row.document else None, squeezed(row.snippet), row.grade) for row in targets]
    whole = all(not snippet for _, snippet, _ in wanted)
    names: list[str] = []
    places: list[Place] = []
    taken: set[str] = set()
    for hit in hits:
        found = _found(hit, wanted)
        fresh = [number for number in found if f"t{number}" not in taken]
        name = f"t{fresh[0]}" if fresh else (hit.document if whole else f"c{hit.chunk}")
        if (found and not fresh) or name in taken or (whole and hit.document in taken):
            continue
        taken |= {name, hit.document} if whole else {name}
        names.append(name)
        places.append(Place(hit.document, hit.chunk, hit.relevance, wanted[fresh[0]][2] if fresh else 0))
    relevant = {f"t{number}": grade for number, (_, _, grade) in enumerate(wanted)}
    return Judged(tuple(places[:DEPTH]), judge(names, relevant))


def _found(hit: Hit, wanted: Sequence[tuple[str | None, str, int]]) -> list[int]:
    """The numbers of the expected answers that a hit is."""
    text = ""
    found = []
    for number, (document, snippet, _) in enumerate(wanted):
        if document is not None and document != hit.document:
            continue
        if snippet:
            text = text or squeezed(hit.text)
            if not holds(text, snippet):
                continue
        found.append(number)
    return found
