"""From a query to the lexemes in which each base is searched: its own, the base's terms, and what was meant.

A base without terms, in a search that names only known words, costs nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from knowledge.retrieval import words
from knowledge.retrieval.corrections import Correction, allows, corrections, put_right
from knowledge.retrieval.permitted import Permitted
from knowledge.retrieval.trace import Trace
from knowledge.retrieval.wording import Wording, plain, with_terms
from knowledge.terms import overlay


@dataclass(frozen=True, slots=True)
class Understood:
    """`lexemes` are those of all bases together, `meant` the query as it is embedded."""

    query: words.Query
    lexemes: tuple[str, ...]
    meant: str
    terms: tuple[str, ...] = ()
    corrections: tuple[Correction, ...] = field(default=())


def understand(permitted: Permitted, query: str, lexemes: Sequence[str], trace: Trace) -> Understood:
    """Look up the statistics of a query; see the module's description."""
    wordings = _in_terms(permitted, query, lexemes)
    prepared = words.prepare(permitted, _all(lexemes, wordings), wordings)
    found: list[Correction] = []
    if any(allows(item, option) for item in permitted.bases for option in ("typos", "pinyin")):
        unknown = [lexeme for lexeme in lexemes if lexeme not in prepared.lexemes]
        if unknown:
            with trace.step("look for what was meant") as detail:
                found = corrections(query, unknown, permitted.bases)
                detail["corrections"] = [f"{one.said} → {one.meant}" for one in found]
    if found:
        wordings = _put_right(permitted, lexemes, wordings, found)
        prepared = words.prepare(permitted, _all(lexemes, wordings), wordings)
    return Understood(
        query=prepared,
        lexemes=tuple(_all(lexemes, wordings)),
        meant=put_right(query, found),
        terms=tuple(dict.fromkeys(term for wording in wordings.values() for term in wording.terms)),
        corrections=tuple(found),
    )


def _in_terms(permitted: Permitted, query: str, lexemes: Sequence[str]) -> dict[int, Wording]:
    """The wordings of the bases whose terms the query names; when there is one, the others are plain ones."""
    found: dict[int, Wording] = {}
    for base, terms in overlay.overlays((item.base.pk, item.base.terms_version) for item in permitted.bases).items():
        wording = with_terms(query, lexemes, terms)
        if wording is not None:
            found[base] = wording
    if found:
        for pk in permitted.base_ids:
            found.setdefault(pk, plain(lexemes))
    return found


def _put_right(
    permitted: Permitted, lexemes: Sequence[str], wordings: dict[int, Wording], found: Sequence[Correction]
) -> dict[int, Wording]:
    """The same where the base lets words be corrected; `found` names lexemes that stand in no base anyway."""
    meant = {lexeme: one.lexemes for one in found for lexeme in one.gone}
    right = {}
    for item in permitted.bases:
        wording = wordings.get(item.base.pk) or plain(lexemes)
        kinds = {"typo": allows(item, "typos"), "pinyin": allows(item, "pinyin")}
        own = {lexeme: lexemes for lexeme, lexemes in meant.items() if kinds[_kind_of(lexeme, found)]}
        right[item.base.pk] = wording.put_right(own)
    return right


def _kind_of(lexeme: str, found: Sequence[Correction]) -> str:
    return next(one.kind for one in found if lexeme in one.gone)


def _all(lexemes: Sequence[str], wordings: dict[int, Wording]) -> list[str]:
    together = dict.fromkeys(lexemes) if not wordings else {}
    for wording in wordings.values():
        together |= dict.fromkeys(wording.weights)
    return list(together)
