"""Chinese words as they are typed in Latin letters: whole syllables, with or without blanks, or initials alone.

The readings of characters come from the `pypinyin` package; without it `is_available` is False and nothing is found.
Only its table of single characters is read: which of a word's readings was meant decides the dictionary, not a guess.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product

from knowledge.text.dictionary import dictionary
from knowledge.text.normal_form import simplified

LONGEST = 40
# Of a run of letters, so many ways to take it apart are tried.
MOST_WAYS = 6
# So many of the most frequent characters of each syllable are put together, in words of two and of three.
_MOST_CHARACTERS = {2: 60, 3: 30}
_VOWELS = frozenset("aeiouv")


def is_available() -> bool:
    """Whether the table of readings is installed."""
    return find_spec("pypinyin") is not None


def syllables(letters: str) -> list[tuple[str, ...]]:
    """The ways to take a run of lower-case letters apart into syllables, fewest first; empty when there is none.

    An apostrophe or a blank ends a syllable.
    """
    known = readings()
    whole: list[tuple[str, ...]] = [()]
    for run in letters.replace("'", " ").replace("\u2019", " ").split():
        ways = _ways(run, known) if len(run) <= LONGEST else []
        whole = [(*before, *way) for before in whole for way in ways][:MOST_WAYS]
    return sorted((way for way in whole if way), key=len)


def _ways(run: str, known: dict[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Taken from the end: the ways of each tail, so that nothing is tried twice."""
    tails: dict[int, list[tuple[str, ...]]] = {len(run): [()]}
    for start in range(len(run) - 1, -1, -1):
        found = [
            (run[start:end], *rest)
            for end in range(min(start + 6, len(run)), start, -1)
            if run[start:end] in known
            for rest in tails.get(end, ())
        ]
        tails[start] = sorted(found, key=len)[:MOST_WAYS]
    return tails[0]


def words_of(way: tuple[str, ...]) -> list[str]:
    """What may be read so, one character a syllable: pairs of common characters, and dictionary words of three.

    Longer words hold shorter ones, and texts are searched for these as well.
    """
    most = _MOST_CHARACTERS.get(len(way))
    choices = [_by_frequency().get(syllable, "")[:most] for syllable in way]
    if most is None or not all(choices):
        return []
    found = map("".join, product(*choices))
    return list(found) if len(way) == 2 else [word for word in found if word in dictionary().weights]


def is_read(word: str, way: tuple[str, ...]) -> bool:
    """Whether a word can be read as these syllables."""
    known = readings()
    return len(word) == len(way) and all(
        char in known.get(syllable, ()) for char, syllable in zip(word, way, strict=True)
    )


def has_initials(word: str, letters: str) -> bool:
    """Whether these are the first letters of the word's characters: nj for 年假."""
    firsts = _initials()
    return len(word) == len(letters) and all(
        letter in firsts.get(char, "") for char, letter in zip(word, letters, strict=True)
    )


@lru_cache(maxsize=1)
def readings() -> dict[str, frozenset[str]]:
    """The characters that are read as each syllable, without tones; ü is v, and u where no other syllable is so."""
    if not is_available():
        return {}
    readings_of: dict[int, str] = import_module("pypinyin.constants").PINYIN_DICT
    weights, table = dictionary().weights, simplified()
    found: dict[str, set[str]] = {}
    for code, raw in readings_of.items():
        char = chr(code)
        if char.translate(table) != char or char not in weights:
            continue
        for reading in raw.split(","):
            for syllable in _bare(reading):
                found.setdefault(syllable, set()).add(char)
    return {syllable: frozenset(chars) for syllable, chars in found.items()}


@lru_cache(maxsize=1)
def _by_frequency() -> dict[str, str]:
    """The characters of each syllable, most frequent first."""
    weights = dictionary().weights
    return {
        syllable: "".join(sorted(chars, key=lambda char: (-weights[char], char)))
        for syllable, chars in readings().items()
    }


@lru_cache(maxsize=1)
def _initials() -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for syllable, chars in readings().items():
        for char in chars:
            found.setdefault(char, set()).add(syllable[0])
    return {char: "".join(sorted(letters)) for char, letters in found.items()}


def _bare(reading: str) -> tuple[str, ...]:
    marked = unicodedata.normalize("NFD", reading.strip().casefold())
    letters = marked.replace("u\u0308", "v").replace("e\u0302", "e")
    plain = "".join(char for char in letters if char.isascii() and char.isalpha())
    if not plain or _VOWELS.isdisjoint(plain):
        return ()
    return (plain, plain.replace("v", "u")) if "v" in plain else (plain,)
