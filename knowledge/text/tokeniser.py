"""The one tokeniser, for documents and queries alike.

Decides alone which lexemes a text has and where they stand. Latin words and identifiers come from
`identifiers`, Chinese words from `dictionary` in the manner of jieba's search mode (long words also
give the shorter words inside them), other unspaced scripts and Han characters that the dictionary
does not know give themselves and pairs of characters. Stop words are kept: BM25 weighs them down.
Punctuation and symbols are dropped.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

from knowledge.text.dictionary import Dictionary, dictionary
from knowledge.text.identifiers import DASHES, HAN, PAIRED, WORD, parts_of
from knowledge.text.normal_form import normalise
from knowledge.text.terms import Terms

MAX_LEXEME = 200
RUNS = re.compile(f"(?P<han>[{HAN}]+)|(?P<word>{WORD})|(?P<paired>[{PAIRED}]+)")
# 传感器-温度-TH01: a code with Han characters in it, whole.
_MIXED = re.compile(f"(?:[{HAN}]{{1,12}}|[a-z0-9]{{1,20}})(?:[-_/{DASHES}](?:[{HAN}]{{1,12}}|[a-z0-9]{{1,20}})){{1,8}}")
_CONNECTORS = re.compile(f"[-_/{DASHES}]")
_HAS_HAN = re.compile(f"[{HAN}]")
_HAS_CODE = re.compile("[a-z0-9]")
_JOINT = re.compile(f"[{HAN}][-_/{DASHES}]|[-_/{DASHES}][{HAN}]")


class Token(NamedTuple):
    """A lexeme and the original range it comes from.

    `position` counts from 1 and grows with the place in the text; the forms of one word share it.
    """

    lexeme: str
    start: int
    end: int
    position: int


def tokenise(text: str, terms: Terms | None = None) -> list[Token]:
    """The tokens of `text` in order of their start. Offsets are exact in the original. Never raises."""
    normal = normalise(text)
    words = dictionary()
    straight = normal.origins is None
    found: list[tuple[int, int, str]] = []
    source = normal.text
    for match in RUNS.finditer(source):
        start, end = match.span()
        kind = match.lastgroup
        if kind == "han":
            _han(source[start:end], start, words, found)
        elif kind == "word":
            run = source[start:end]
            cased = capitals(text[start:end] if straight else _original(normal.span(start, end), text), run)
            for lexeme, low, high in parts_of(run, cased):
                found.append((start + low, -start - high, lexeme))
        else:
            _pairs(source[start:end], start, found)
    _mixed(source, words, found)
    if terms:
        for start, end, lexeme in terms.matches(source):
            found.append((start, -end, lexeme))
        found = list(dict.fromkeys(found))
    found.sort()
    tokens = []
    position, last = 0, -1
    for start, negative, lexeme in found:
        if start != last:
            position += 1
            last = start
        low, high = (start, -negative) if straight else normal.span(start, -negative)
        tokens.append(Token(lexeme if len(lexeme) <= MAX_LEXEME else shortened(lexeme), low, high, position))
    return tokens


def shortened(lexeme: str) -> str:
    """A stand-in of bounded length for a very long lexeme: equal ones stay equal, others differ."""
    digest = blake2b(lexeme.encode("utf-8", "replace"), digest_size=12).hexdigest()
    return f"{lexeme[:40]}~{digest}"


def _original(span: tuple[int, int], text: str) -> str:
    return text[span[0] : span[1]]


def capitals(original: str, run: str) -> str:
    """The original if capitals inside it cut it into parts and it is as long as its normal form, else empty."""
    tail = original[1:]
    if len(original) != len(run) or len(run) > MAX_LEXEME or tail == run[1:] or original.isupper():
        return ""
    return original if original.isascii() else ""


def _han(run: str, start: int, words: Dictionary, found: list[tuple[int, int, str]]) -> None:
    weights = words.weights
    low = 0
    single = -1
    for high in words.cut(run):
        size = high - low
        if size == 1:
            if single < 0:
                single = low
        else:
            if single >= 0:
                _singles(run, single, low, start, found)
                single = -1
            word = run[low:high]
            found.append((start + low, -start - high, word))
            if size > 2:
                for width in (2, 3) if size > 3 else (2,):
                    for offset in range(size - width + 1):
                        inner = word[offset : offset + width]
                        if inner in weights:
                            at = start + low + offset
                            found.append((at, -at - width, inner))
        low = high
    if single >= 0:
        _singles(run, single, low, start, found)


def _singles(run: str, low: int, high: int, start: int, found: list[tuple[int, int, str]]) -> None:
    """Characters that the dictionary joins to no word: each alone, and in pairs.

    Alone too, because the neighbours differ: 枪 must be found in 用枪的.
    """
    for offset in range(low, high):
        found.append((start + offset, -start - offset - 1, run[offset]))
    if high - low > 1:
        _pairs(run[low:high], start + low, found)


def _pairs(run: str, start: int, found: list[tuple[int, int, str]]) -> None:
    if len(run) == 1:
        found.append((start, -start - 1, run))
    for offset in range(len(run) - 1):
        found.append((start + offset, -start - offset - 2, run[offset : offset + 2]))


def _mixed(source: str, words: Dictionary, found: list[tuple[int, int, str]]) -> None:
    """Codes with Han characters in them, whole. Of Han characters at either end only the nearest word belongs."""
    if _JOINT.search(source) is None:
        return
    for match in _MIXED.finditer(source):
        low, high = match.span()
        joints = [joint.start() for joint in _CONNECTORS.finditer(source, low, high)]
        if _is_han(source[low]):
            low += ([0, *words.cut(source[low : joints[0]])])[-2]
        if _is_han(source[high - 1]):
            high = joints[-1] + 1 + words.cut(source[joints[-1] + 1 : high])[0]
        whole = source[low:high]
        if _HAS_HAN.search(whole) and _HAS_CODE.search(whole):
            found.append((low, -high, _CONNECTORS.sub("", whole)))


def _is_han(char: str) -> bool:
    return _HAS_HAN.match(char) is not None
