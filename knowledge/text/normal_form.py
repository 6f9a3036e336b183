"""The one normal form of text that words are taken from, with the way back to the original.

Decides alone: what is thrown away (NUL, lone surrogates, zero-width characters), what counts as
the same letter (NFKC, case folding, traditional and simplified Chinese), and how an offset in the
normal form maps to the original. What people see is always the original.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_NEWLINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Characters without a width of their own: they are part of no word, wherever they stand.
_ZERO_WIDTH = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]+"
)
# A base letter with more marks than this is an attack on the (quadratic) reordering of marks.
_MAX_CLUSTER = 32
# Ranges whose letters mostly fold one to one: they take the fast path. What does not fold so is
# found and left out when the table is built.
_COMMON_RANGES = (
    (0x09, 0x0A), (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x45F), (0x2010, 0x2027), (0x2030, 0x205E),
    (0x2190, 0x21FF), (0x2500, 0x25FF), (0x3001, 0x30FF), (0xFF01, 0xFF65),
)  # fmt: skip
# Whole blocks that NFKC and case folding leave alone: only traditional -> simplified matters there.
_IDENTITY_RANGES = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002a6df"


def clean(text: str) -> str:
    """Text that every sink takes: `\\n` newlines, no NUL, lone surrogates as U+FFFD. Nothing else changes."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
    return _NEWLINES.sub("\n", text)


@dataclass(frozen=True, slots=True)
class Normalised:
    """`text` is the normal form; `length` is the original's, in code points.

    `origins[i]` is where in the original the i-th character comes from, or `origins` is None when
    both texts correspond one to one.
    """

    text: str
    length: int
    origins: array[int] | None = None

    def origin(self, index: int) -> int:
        """The original offset of the character at `index`; `len(text)` maps to the original's end."""
        if index >= len(self.text):
            return self.length
        return index if self.origins is None else self.origins[index]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The smallest original range (start, end) that holds the normal form's [start, end)."""
        if self.origins is None or end <= start:
            return self.origin(start), self.origin(max(start, end))
        last = self.origins[end - 1]
        while end < len(self.text) and self.origins[end] == last:
            end += 1
        return self.origins[start], self.origin(end)


def normalise(text: str) -> Normalised:
    """The normal form of `text`: NFKC, no zero-width characters, case folded, simplified Chinese.

    Idempotent: `normalise(normalise(t).text).text == normalise(t).text`. Never raises.
    """
    if text.isascii():
        if _ZERO_WIDTH.search(text) is None:
            return Normalised(text.lower(), len(text))
    else:
        text = _SURROGATES.sub("\ufffd", text)
    folds = _folds()
    pieces: list[str] = []
    origins = array("I")
    straight = True
    position = 0
    for match in folds.uncommon.finditer(text):
        start, end = match.span()
        if start > position:
            pieces.append(text[position:start].translate(folds.table))
            origins.extend(range(position, start))
        for first, last in _clusters(text, start, end):
            folded = _fold_cluster(text[first : min(last, first + 8 * _MAX_CLUSTER)])
            pieces.append(folded)
            origins.extend([first] * len(folded))
            straight = straight and len(folded) == last - first == 1
        position = end
    if straight:
        pieces.append(text[position:].translate(folds.table))
        return Normalised("".join(pieces), len(text))
    pieces.append(text[position:].translate(folds.table))
    origins.extend(range(position, len(text)))
    return Normalised("".join(pieces), len(text), origins)


def simplified() -> dict[int, str]:
    """Traditional -> simplified, character by character, from the tables of the `opencc` package."""
    return _folds().simplified


def _clusters(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Cut text[start:end] into letters with their marks; between two of them nothing composes."""
    bounds = []
    first = start
    for index in range(start + 1, end):
        if not _extends(text[index]):
            bounds.append((first, index))
            first = index
    bounds.append((first, end))
    return bounds


@lru_cache(maxsize=16_384)
def _extends(char: str) -> bool:
    if _ZERO_WIDTH.match(char):
        return True
    # A character whose decomposition starts with a mark (half-width voicing) joins the one before.
    lead = unicodedata.normalize("NFKD", char)[0]
    return unicodedata.category(lead)[0] == "M" or "\u1160" <= lead <= "\u11ff"


@lru_cache(maxsize=16_384)
def _fold_cluster(cluster: str) -> str:
    table = _folds().simplified
    for _ in range(8):
        folded = _ZERO_WIDTH.sub("", cluster)[: 2 * _MAX_CLUSTER]
        folded = unicodedata.normalize("NFKC", folded).casefold()
        folded = unicodedata.normalize("NFKC", folded).translate(table)[:_MAX_CLUSTER]
        if folded == cluster:
            break
        cluster = folded
    return cluster


@dataclass(frozen=True, slots=True)
class _Folds:
    simplified: dict[int, str]
    table: dict[int, str]
    uncommon: re.Pattern[str]


@lru_cache(maxsize=1)
def _folds() -> _Folds:
    """The fold tables; building takes some 10 ms."""
    chinese = _read_simplified()
    table = dict(chinese)
    common = []
    for low, high in _COMMON_RANGES:
        for code in range(low, high + 1):
            char = chr(code)
            folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
            if len(folded) != 1 or _ZERO_WIDTH.match(char) or unicodedata.category(char)[0] == "M":
                continue
            if unicodedata.normalize("NFKD", char)[0] in "\u3099\u309a":
                continue
            folded = chinese.get(ord(folded), folded)
            common.append(char)
            if folded != char:
                table[code] = folded
    fast = re.escape("".join(common)) + _IDENTITY_RANGES
    # A mark changes the letter before it, so that letter leaves the fast path too.
    marks = f"(?:[{fast}](?=[^{fast}]))?[^{fast}]+"
    return _Folds(chinese, table, re.compile(marks))


def _read_simplified() -> dict[int, str]:
    spec = find_spec("opencc")  # the package itself is never imported: only its table is read
    assert spec is not None and spec.origin is not None
    lines = (Path(spec.origin).parent / "dictionary" / "TSCharacters.txt").read_text("utf-8").splitlines()
    pairs: dict[str, str] = {}
    for line in lines:
        source, _, targets = line.partition("\t")
        target = targets.split(" ")[0]
        if len(source) == 1 and len(target) == 1 and source != target and ord(target) <= sys.maxunicode:
            pairs[source] = target
    resolved = {}
    for source, target in pairs.items():
        seen = {source}
        while target in pairs and target not in seen:
            seen.add(target)
            target = pairs[target]
        if target != source:
            resolved[ord(source)] = target
    return resolved
