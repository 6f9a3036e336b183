"""A base's own words and synonyms, laid over the shared dictionary.

Decides alone what a term adds: a match anywhere in a text gives the term's own lexeme, whichever of
its synonyms stands there, so that any of them finds any other. No dictionary per base: a few hundred
bytes a term, and one look-up per character of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from knowledge.text.normal_form import normalise


@dataclass(frozen=True, slots=True)
class Term:
    """A term as people enter it. `weight` multiplies the term's part in a query's score."""

    text: str
    synonyms: tuple[str, ...] = ()
    weight: float = 1.0


class Terms:
    """The terms of one base, ready to be matched. Immutable; safe to share between threads."""

    __slots__ = ("_has_ones", "_lengths", "_lexemes", "conflicts", "weights")

    def __init__(self, terms: Iterable[Term]) -> None:
        """`conflicts` names the surfaces that belong to more than one term; all of them keep working."""
        self._lexemes: dict[str, tuple[str, ...]] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        self.weights: dict[str, float] = {}
        self.conflicts: dict[str, tuple[str, ...]] = {}
        for term in terms:
            self._add(term)
        self._has_ones = any(len(surface) == 1 for surface in self._lexemes)
        for surface in self._lexemes:
            if len(surface) == 1:
                continue
            known = self._lengths.get(surface[:2], ())
            if len(surface) not in known:
                self._lengths[surface[:2]] = tuple(sorted((*known, len(surface)), reverse=True))

    def _add(self, term: Term) -> None:
        head = surface_of(term.text)
        if not head:
            return
        lexeme = head.replace(" ", "")
        self.weights[lexeme] = max(term.weight, self.weights.get(lexeme, 0.0))
        for surface in dict.fromkeys((head, *map(surface_of, term.synonyms))):
            if not surface:
                continue
            before = self._lexemes.get(surface, ())
            if lexeme in before:
                continue
            self._lexemes[surface] = (*before, lexeme)
            if before:
                self.conflicts[surface] = self._lexemes[surface]

    def __bool__(self) -> bool:
        return bool(self._lexemes)

    @property
    def surfaces(self) -> tuple[str, ...]:
        """Every term and synonym in normal form: what a chunk must hold to be touched by these terms."""
        return tuple(self._lexemes)

    def lexemes_of(self, surface: str) -> tuple[str, ...]:
        """The lexemes that a word gives, the first term's first."""
        return self._lexemes[surface]

    def is_head(self, matched: str, lexeme: str) -> bool:
        """Whether a match is the term itself, not another word for it."""
        return matched.translate(_BLANKS).replace(" ", "") == lexeme

    def matches(self, normal: str) -> Iterator[tuple[int, int, str]]:
        """(start, end, lexeme) of the longest match at each place of a text in normal form."""
        lengths = self._lengths
        ones = (1,) if self._has_ones else ()
        folded = normal.translate(_BLANKS)
        for start in range(len(folded)):
            for size in (*lengths.get(folded[start : start + 2], ()), *ones):
                lexemes = self._lexemes.get(folded[start : start + size])
                if lexemes and _stands_free(folded, start, start + size):
                    for lexeme in lexemes:
                        yield start, start + size, lexeme
                    break


_BLANKS = dict.fromkeys((*range(9, 14), 133, 160, 8232, 8233), " ")


def surface_of(text: str) -> str:
    """A term in the form it is compared in: normal form, runs of blanks as one."""
    return " ".join(normalise(text).text.split())


def _stands_free(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] cuts no Latin word or number in two."""
    return not (
        (start > 0 and _is_latin(text[start - 1]) and _is_latin(text[start]))
        or (end < len(text) and _is_latin(text[end - 1]) and _is_latin(text[end]))
    )


def _is_latin(char: str) -> bool:
    return char.isalnum() and char < "\u1100"
