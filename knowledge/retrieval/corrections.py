"""What was meant by words of a query that stand nowhere: a mistyped Latin word, or Chinese in Latin letters.

Both are options of a base and are looked for only there, and only when a word of the query stands in none of
the bases searched. A Latin word is replaced by the word of these bases that is one step away (a letter more, less,
another, or two swapped), a long one by one that is two steps away; codes with digits or capitals inside are never
touched. No table of misspellings is kept: all that is one step away is looked up in the index of the word counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from django.db import connection

from knowledge import statistics
from knowledge.retrieval.contract import Hit
from knowledge.retrieval.permitted import SearchedBase
from knowledge.terms import overlay
from knowledge.text import is_code, pinyin, tokenise
from knowledge.text.stemming import stem

SHORTEST_TYPO, SHORTEST_FAR = 4, 7
# Words of a base that are compared for two steps, most frequent first.
COMPARED = 20_000
MOST_CORRECTED = 4
INITIALS = range(2, 7)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_LATIN = re.compile(r"(?<![\w.\-/@+#:])[A-Za-z]+(?![\w.\-/@+#:]*[\w@+#])")
_RUN = re.compile(r"(?<![\w.\-/@+#:])[A-Za-z]+(?:[ '\u2019][A-Za-z]+)*(?![\w\-/@+#:])")


@dataclass(frozen=True, slots=True)
class Correction:
    """`said` stands in the query, `meant` is searched for it; `gone` are the lexemes given up for `lexemes`."""

    kind: Literal["typo", "pinyin"]
    said: str
    meant: str
    gone: tuple[str, ...]
    lexemes: tuple[str, ...]


def allows(item: SearchedBase, option: Literal["typos", "pinyin"]) -> bool:
    """Whether the base has the option on; read as it is stored, because every search asks this of every base."""
    return bool(item.base.config.get("searching", {}).get(option))


def corrections(query: str, unknown: Collection[str], bases: Sequence[SearchedBase]) -> list[Correction]:
    """What was meant, in the order of the query; `unknown` are the lexemes that stand in none of the bases."""
    found: list[Correction] = []
    sounding = [item for item in bases if allows(item, "pinyin")]
    if sounding and pinyin.is_available():
        found += _by_sound(query, unknown, sounding)
    typing = [item.base.pk for item in bases if allows(item, "typos")]
    left = [lexeme for lexeme in unknown if not any(lexeme in one.gone for one in found)]
    if typing and left:
        found += _by_letters(query, left, typing)
    return sorted(found, key=lambda one: query.find(one.said))


def put_right(query: str, found: Iterable[Correction]) -> str:
    """The query as it was meant."""
    for one in found:
        query = query.replace(one.said, one.meant, 1)
    return query


def in_words(found: Iterable[Correction], hits: Iterable[Hit]) -> list[Correction]:
    """The same with words as the hits write them: lexemes are stems, and nobody reads those."""
    shown: dict[str, str] = {}
    for hit in hits:
        for start, end in hit.highlights:
            word = hit.text[start:end]
            shown.setdefault(stem(word.casefold()), word.casefold())
    return [replace(one, meant=shown.get(one.meant, one.meant)) if one.kind == "typo" else one for one in found]


# -- mistyped Latin words ---------------------------------------------------------------------------


def _by_letters(query: str, unknown: Collection[str], base_ids: list[int]) -> list[Correction]:
    found: dict[str, Correction] = {}
    for match in _LATIN.finditer(query):
        said = match[0]
        lexeme = stem(said.casefold())
        if len(found) == MOST_CORRECTED or said in found or lexeme not in unknown:
            continue
        if len(lexeme) < SHORTEST_TYPO or is_code(said.casefold(), said):
            continue
        meant = _nearest(lexeme, base_ids)
        if meant:
            found[said] = Correction("typo", said, meant, (lexeme,), (meant,))
    return list(found.values())


def _nearest(lexeme: str, base_ids: list[int]) -> str | None:
    """The most frequent lexeme at the least distance; one with the same first letter comes first."""
    counts: dict[str, int] = {}
    for base in statistics.read(base_ids, sorted(one_step(lexeme))).values():
        for known, count in base.frequencies.items():
            counts[known] = counts.get(known, 0) + count
    if not counts and len(lexeme) >= SHORTEST_FAR:
        counts = {known: count for known, count in _alike(lexeme, base_ids) if distance(lexeme, known, 2) <= 2}
    return min(counts, key=lambda known: (known[0] != lexeme[0], -counts[known], known), default=None)


def one_step(word: str) -> set[str]:
    """All strings that are one step away."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    deleted = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    replaced = {left + letter + right[1:] for left, right in cuts if right for letter in _LETTERS}
    inserted = {left + letter + right for left, right in cuts for letter in _LETTERS}
    return {one for one in deleted | swapped | replaced | inserted if len(one) >= SHORTEST_TYPO - 1} - {word}


def _alike(lexeme: str, base_ids: list[int]) -> list[tuple[str, int]]:
    """The bases' words with the same first letter and nearly the same length, merged word counts only."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lexeme, sum(chunks)::bigint AS n FROM knowledge_baseterm WHERE base_id = ANY(%s) "
            "AND left(lexeme, 1) = %s AND char_length(lexeme) BETWEEN %s AND %s GROUP BY lexeme HAVING sum(chunks) > 0 "
            "ORDER BY n DESC LIMIT %s",
            [base_ids, lexeme[0], len(lexeme) - 2, len(lexeme) + 2, COMPARED],
        )
        return [(known, int(count)) for known, count in cursor.fetchall() if known.isalpha()]


def distance(one: str, other: str, most: int) -> int:
    """Steps between two words (optimal string alignment: Damerau, 1964); more than `most` is `most` + 1."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, against in enumerate(other, 1):
            value = min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                value = min(value, before[column - 2] + 1)
            here.append(value)
        if min(here) > most:
            return most + 1
        before, above = above, here
    return above[-1]


# -- Chinese in Latin letters -----------------------------------------------------------------------


def _by_sound(query: str, unknown: Collection[str], bases: Sequence[SearchedBase]) -> list[Correction]:
    found: list[Correction] = []
    for match in _RUN.finditer(query):
        said = match[0]
        lexemes = {token.lexeme for token in tokenise(said)}
        gone = tuple(sorted(lexemes.intersection(unknown)))
        if not gone or len(found) == MOST_CORRECTED:
            continue
        meant = _sounding(said.casefold(), bases)
        if meant:
            found.append(Correction("pinyin", said, "".join(meant), tuple(sorted(lexemes)), tuple(meant)))
    return found


def _sounding(letters: str, bases: Sequence[SearchedBase]) -> list[str]:
    """The words of the bases that are read so, in order; empty when they do not cover the whole run."""
    base_ids = [item.base.pk for item in bases]
    own = _own_words(bases)
    for way in pinyin.syllables(letters):
        covered = _cover(way, base_ids, own)
        if covered:
            return covered
    bare = letters.replace(" ", "")
    if len(bare) in INITIALS and bare.isalpha():
        return _by_initials(bare, base_ids, own)
    return []


def _own_words(bases: Sequence[SearchedBase]) -> dict[str, str]:
    """Words of the bases' terms in Han characters, with the lexeme that each stands for."""
    found: dict[str, str] = {}
    for terms in overlay.overlays((item.base.pk, item.base.terms_version) for item in bases).values():
        for surface in terms.surfaces:
            found.setdefault(surface, terms.lexemes_of(surface)[0])
    return found


def _cover(way: tuple[str, ...], base_ids: list[int], own: dict[str, str]) -> list[str]:
    """Words that cover all syllables, the longest first, of those read alike the most frequent."""
    size = len(way)
    spans = [(start, end) for start in range(size) for end in range(start + 2, min(start + 8, size) + 1)]
    words = {span: pinyin.words_of(way[slice(*span)]) for span in spans}
    asked = sorted({word for group in words.values() for word in group})
    counts: dict[str, int] = {}
    for base in statistics.read(base_ids, asked).values() if asked else ():
        for word, count in base.frequencies.items():
            counts[word] = counts.get(word, 0) + count
    best: dict[int, list[str]] = {size: []}
    for start in range(size - 1, -1, -1):
        for end in range(min(start + 8, size), start + 1, -1):
            if end not in best or start in best:
                continue
            part = way[start:end]
            named = [own[word] for word in own if pinyin.is_read(word, part)]
            known = sorted((word for word in words[start, end] if counts.get(word)), key=lambda word: -counts[word])
            if named or known:
                best[start] = [(named or known)[0], *best[end]]
    return best.get(0, [])


def _by_initials(letters: str, base_ids: list[int], own: dict[str, str]) -> list[str]:
    for word, lexeme in own.items():
        if pinyin.has_initials(word, letters):
            return [lexeme]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lexeme, sum(chunks) AS n FROM knowledge_baseterm WHERE base_id = ANY(%s) "
            "AND char_length(lexeme) = %s GROUP BY lexeme HAVING sum(chunks) > 0 "
            "ORDER BY n DESC LIMIT %s",
            [base_ids, len(letters), COMPARED],
        )
        return next(([word] for word, _ in cursor.fetchall() if pinyin.has_initials(word, letters)), [])
