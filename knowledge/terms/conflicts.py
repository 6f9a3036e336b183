"""What does not fit together in the terms of a base. Nothing of it is refused: all of them keep working."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from knowledge.models import Term
from knowledge.text.terms import surface_of

Kind = Literal["synonym_twice", "term_is_synonym", "cycle"]


@dataclass(frozen=True, slots=True)
class TermConflict:
    """`word` belongs to several terms: as a synonym of all (`synonym_twice`), as one of them and a synonym of others
    (`term_is_synonym`), or two terms are each other's synonyms (`cycle`). A search for it finds what any of them finds.
    """

    kind: Kind
    word: str
    terms: tuple[str, ...]


def conflicts(terms: Iterable[Term]) -> list[TermConflict]:
    """All conflicts, by word."""
    heads: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for term in terms:
        heads[term.surface] = term.text
        for synonym in term.synonyms:
            surface = surface_of(synonym)
            shown.setdefault(surface, synonym)
            if surface != term.surface:
                said.setdefault(surface, []).append(term.surface)
    found = []
    for surface, owners in sorted(said.items()):
        names = tuple(heads[owner] for owner in owners)
        if surface not in heads:
            if len(owners) > 1:
                found.append(TermConflict("synonym_twice", shown[surface], names))
            continue
        mutual = [owner for owner in owners if owner in said and surface in said[owner]]
        for owner in mutual:
            if owner > surface:
                found.append(TermConflict("cycle", heads[surface], (heads[surface], heads[owner])))
        others = tuple(heads[owner] for owner in owners if owner not in mutual)
        if others:
            found.append(TermConflict("term_is_synonym", heads[surface], (heads[surface], *others)))
    return found
