"""Words of letters and digits, whole and in parts.

Decides alone into which lexemes `ISO-9001`, `get_user_by_id`, `iPhone15Pro`, `C++`, `1.2.3`, an
e-mail address or a path is taken apart. Every form is produced for documents and queries alike, so
that any of them finds any other.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from knowledge.text.stemming import stem

Part = tuple[str, int, int]
"""A lexeme and its (start, end) inside the word."""

# Scripts that are cut otherwise: Han by the dictionary, the others (no blanks between words, or
# endings glued to them) by pairs of characters.
HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
PAIRED = (
    "\u0e00-\u0e3a\u0e40-\u0e4e\u0e80-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7af"
)
DASHES = "\u2010\u2012\u2013\u2212"


def _marks() -> str:
    codes = [code for code in range(0x300, 0x3000) if unicodedata.category(chr(code))[0] == "M"]
    paired = re.compile(f"[{PAIRED}]")
    return "".join(map(chr, (code for code in codes if not paired.match(chr(code)))))


_LETTER = f"(?:[^\\W_{HAN}{PAIRED}]|[{_marks()}])"
WORD = (
    f"\\.?{_LETTER}+(?:(?:[-_.:@&'\u2019+#/\\\\=?%~{DASHES}]{{1,3}}|(?<=[0-9]),(?=[0-9])){_LETTER}+)*"
    f"(?:\\+\\+|\\#(?!{_LETTER}))?"
)
# What stands between the connectors, from the loosest to the tightest: each level's pieces are lexemes.
_LEVELS = (re.compile(r"[^/\\@?=&:%]+"), re.compile(r"[^.]+"), re.compile(r"[^-_+~,#'\u2019]+"))
_CONNECTOR = re.compile(r"[-_/\\.:@&'\u2019+#=?%~,]+")
_NUMBER = re.compile(r"v?([0-9]+(?:[.,][0-9]+)+)")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_PIECES = re.compile(r"[0-9]+|[^0-9]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DASH = str.maketrans(dict.fromkeys(DASHES, "-"))
_CODE = re.compile(r"[_#\\@]|\+\+|::|\w\.\w+\.\w|/\w+/")
_NUMBER_CHAIN = re.compile(r"[0-9]+(?:[-/:_][0-9]+)+")
# Joined up, codes (TH-01) and short words (e-mail) are still the same thing; of longer words the joined form
# only counts the same parts twice (nDCG@10 on the APISIX set: .701 with, .738 without).
_SHORT = 6
_PROSE = re.compile(r"[^\W0-9_]+(?:[-_'\u2019/]+[^\W0-9_]+)+")
_MAX_PARTS = 24
_CACHED = 64
_MAX_PIECES = 6


def parts_of(word: str, cased: str = "") -> tuple[Part, ...]:
    """The lexemes of `word` (a match of `WORD` in normal form), each once, in order of their start.

    `cased` is the same word with its capitals where they matter (`getUserById`), or empty.
    """
    if word.isalpha() and not cased:
        return ((stem(word), 0, len(word)),)
    if word.isdecimal():
        return ((word, 0, len(word)),)
    return _parts(word, cased) if len(word) <= _CACHED else _parts.__wrapped__(word, cased)


@lru_cache(maxsize=16_384)
def _parts(word: str, cased: str) -> tuple[Part, ...]:
    found: dict[Part, None] = {}
    _take_apart(word.translate(_DASH), 0, cased, 0, found)
    return tuple(sorted(found, key=lambda part: (part[1], -part[2])))


def is_code(word: str, cased: str = "") -> bool:
    """Whether a word looks like an identifier rather than prose: `TH-01`, `a_b`, `x::y`, `C++`, `camelCase`."""
    if not any(map(str.isalpha, word)):
        return len(word) > 6 and _NUMBER_CHAIN.fullmatch(word) is not None
    if any(map(str.isdecimal, word)):
        return True
    return _CODE.search(word) is not None or re.search("[a-z][A-Z]", cased) is not None


def _take_apart(word: str, start: int, cased: str, level: int, found: dict[Part, None]) -> None:
    """Add `word` as a whole, then the pieces between its loosest connectors, and so on down."""
    number = _NUMBER.fullmatch(word)
    if number:
        _add_number(number, start, found)
        return
    if level == len(_LEVELS) or _CONNECTOR.search(word) is None:
        _add_pieces(word, start, cased, found)
        return
    pieces = [match.span() for match in _LEVELS[level].finditer(word)]
    if level == 0 or len(pieces) > 1:
        found[word, start, start + len(word)] = None
    if level == 0:
        squashed = _CONNECTOR.sub("", word)
        if word[-1] in "+#":
            if len(squashed) == 1:  # C is another language than C++
                return
        elif len(squashed) > 1 and (len(squashed) <= _SHORT or not _PROSE.fullmatch(word)):
            found[squashed, start, start + len(word)] = None
    for low, high in pieces[:_MAX_PARTS]:
        _take_apart(word[low:high], start + low, cased[low:high], level + 1, found)


def _add_number(number: re.Match[str], start: int, found: dict[Part, None]) -> None:
    digits, low, high = number[1], start + number.start(1), start + number.end(1)
    if _THOUSANDS.fullmatch(digits):
        found[digits.replace(",", ""), low, high] = None
        return
    found[digits, low, high] = None
    numbers = re.split("[.,]", digits)
    if len(numbers) > 2:  # a version: 1.2 finds 1.2.3
        short = f"{numbers[0]}.{numbers[1]}"
        found[short, low, low + len(short)] = None


def _add_pieces(piece: str, start: int, cased: str, found: dict[Part, None]) -> None:
    """Add a piece without connectors, and what changes between letters and digits make of it."""
    spans = [match.span() for match in _PIECES.finditer(piece)]
    if len(spans) == 1:
        _add_letters(piece, start, cased, found)
        return
    found[piece, start, start + len(piece)] = None
    if len(spans) > _MAX_PIECES:  # a hash or an encoded text: its parts mean nothing
        return
    for low, high in spans:
        if high - low > 1 or piece[low].isdecimal():
            _add_letters(piece[low:high], start + low, cased[low:high], found)


def _add_letters(piece: str, start: int, cased: str, found: dict[Part, None]) -> None:
    found[stem(piece), start, start + len(piece)] = None
    humps = [match.span() for match in _HUMPS.finditer(cased)]
    if 1 < len(humps) <= _MAX_PARTS:
        for low, high in humps:
            if high - low > 1:
                found[stem(piece[low:high]), start + low, start + high] = None
