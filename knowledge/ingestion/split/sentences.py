"""Where a text may be cut: after sentences, else after clauses, between words, between characters.

All functions return offsets into the whole text, so that nothing is ever searched for again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from knowledge.ingestion.split.patterns import character_start
from knowledge.text.dictionary import dictionary
from knowledge.text.identifiers import HAN
from knowledge.text.normal_form import normalise

Span = tuple[int, int]

_CLOSERS = "\"'”’」』）)】》〉\\]*_"
_SENTENCE_END = re.compile(
    f"[。！？!?；…｡]+[{_CLOSERS}]*"  # full-width and emphatic ends need no blank after them
    f"|[.;][{_CLOSERS}]*(?=\\s)"
    r"|\n(?=[ \t]*(?:\n|[-*+•·▪◦●○■□◆]\s|[(（]?[0-9一二三四五六七八九十]{1,3}[.)、）．]|\|))"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(（\"“])(?:[A-Za-z]|[A-Za-z]\.[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|cf|al|Fig|Figs|Eq|No|Nos|Vol|Sec|Ch|"
    r"pp|Inc|Ltd|Co|Corp|approx|resp|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.$"
)
_CLAUSE_END = re.compile(r"[，、,:：;；—]+|\s+")
_ITEM = re.compile(
    r"^[ \t]{0,3}(?:[-*+•·▪◦●○■□◆]|[(（]?[0-9a-zA-Z一二三四五六七八九十]{1,4}[.)、）．])[ \t]*", re.MULTILINE
)
_HAN_RUN = re.compile(f"[{HAN}]+")
# How far back from the furthest possible place a better one is looked for.
_LOOK_BACK = 0.5


def trimmed(text: str, start: int, end: int) -> Span:
    """The range without white space at both ends; empty at `start` if there is nothing else."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    if left == len(piece):
        return start, start
    return start + left, start + len(piece.rstrip())


def sentences(text: str, start: int, end: int) -> list[Span]:
    """The sentences of text[start:end], Chinese and English, without the blanks between them."""
    cuts = []
    for match in _SENTENCE_END.finditer(text, start, end):
        stop = match.end()
        if match[0][0] == "." and not _ends_sentence(text, start, match.start(), stop, end):
            continue
        cuts.append(stop)
    return _spans(text, start, end, cuts)


def list_items(text: str, start: int, end: int) -> list[Span]:
    """The outer items of a list, each with what is indented under it."""
    return _spans(text, start, end, [start + match.start() for match in _ITEM.finditer(text[start:end])])


def lines(text: str, start: int, end: int) -> list[Span]:
    """The lines that are not blank, with their indentation."""
    found = []
    position = start
    for line in text[start:end].split("\n"):
        if line.strip():
            found.append((position, position + len(line.rstrip())))
        position += len(line) + 1
    return found


def windows(text: str, start: int, end: int, size: int) -> list[Span]:
    """text[start:end] in pieces of at most `size` characters, each cut at the best place that the size allows."""
    size = max(size, 1)
    pieces = []
    position = start
    while end - position > size:
        cut = _best_cut(text, position, position + size)
        pieces.append(trimmed(text, position, cut))
        position = cut
    pieces.append(trimmed(text, position, end))
    return [piece for piece in pieces if piece[0] < piece[1]]


def _best_cut(text: str, start: int, limit: int) -> int:
    """The last good place to cut in (start, limit]."""
    low = start + max(1, int((limit - start) * _LOOK_BACK))
    for ends in (_SENTENCE_END, _CLAUSE_END):
        cuts = [match.end() for match in ends.finditer(text, low, limit) if match.end() > low]
        if cuts:
            return cuts[-1]
    cut = _between_words(text, low, limit)
    return character_start(text, max(start, cut - 32), cut)


def _between_words(text: str, low: int, limit: int) -> int:
    """The last end of a Chinese word in (low, limit], or `limit` when no Han characters surround it."""
    if limit >= len(text) or not (_HAN_RUN.match(text[limit - 1]) and _HAN_RUN.match(text[limit])):
        return limit
    first = max(low, limit - 40)
    while first > low and not _HAN_RUN.match(text[first]):
        first += 1
    run = _HAN_RUN.search(text, first, limit + 16)
    while run is not None and run.end() < limit:
        run = _HAN_RUN.search(text, run.end(), limit + 16)
    if run is None or run.start() >= limit:
        return limit
    folded = normalise(run[0]).text
    if len(folded) != len(run[0]):
        return limit
    cuts = [0, *dictionary().cut(folded)]
    cut = run.start() + cuts[bisect_right(cuts, limit - run.start()) - 1]
    return cut if cut > low else limit


def _ends_sentence(text: str, start: int, dot: int, stop: int, end: int) -> bool:
    """Whether a full stop ends a sentence: no abbreviation before it, no small letter after it."""
    if text[dot] != ".":
        return True
    following = text[stop : min(end, stop + 16)].lstrip()[:1]
    if following.islower():
        return False
    return _ABBREVIATION.search(text[max(start, dot - 8) : dot + 1]) is None


def _spans(text: str, start: int, end: int, cuts: list[int]) -> list[Span]:
    bounds = sorted({start, end, *cuts})
    spans = [trimmed(text, low, high) for low, high in pairwise(bounds)]
    return [span for span in spans if span[0] < span[1]]
