"""What a question asks for in words: its lexemes, its kind, and where they stand in a text shown to people."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from knowledge.text.identifiers import HAN, is_code
from knowledge.text.normal_form import clean, normalise
from knowledge.text.terms import Terms
from knowledge.text.tokeniser import RUNS, Token, capitals, tokenise

QueryKind = Literal["identifier", "short", "sentence"]
Script = Literal["han", "latin"]

MAX_QUERY_CHARS = 1_000
MAX_QUERY_LEXEMES = 64
_SHORT_HAN = 6
_SHORT_WORDS = 3
_HAN = re.compile(f"[{HAN}]")
_LATIN = re.compile("[a-z\u00df-\u024f]+")
_ASKS = re.compile(r"[?？吗呢]\s*$")


def query_lexemes(query: str, terms: Terms | None = None) -> list[str]:
    """The lexemes of a query, each once, in order: of its first 1,000 characters, at most 64 of them.

    Of more, those that say most are kept: codes before long words before short ones before lone Han
    characters. Empty for a query of punctuation only; such a query has to be answered by vectors.
    """
    first: dict[str, Token] = {}
    for token in tokenise(clean(query[: MAX_QUERY_CHARS * 2])[:MAX_QUERY_CHARS], terms):
        first.setdefault(token.lexeme, token)
    lexemes = list(first)
    if len(lexemes) <= MAX_QUERY_LEXEMES:
        return lexemes
    kept = set(sorted(lexemes, key=_information, reverse=True)[:MAX_QUERY_LEXEMES])
    return [lexeme for lexeme in lexemes if lexeme in kept]


def _information(lexeme: str) -> tuple[bool, bool, int]:
    return len(lexeme) > 1 and is_code(lexeme), len(lexeme) > 1, min(len(lexeme), 12)


def query_kind(query: str) -> QueryKind:
    """What sort of query it is, for weighting words against meaning.

    `identifier`: holds a code (`TH-01`, `get_user_by_id`, `C++`, `E209-25`). `short`: a few key
    words. `sentence`: anything longer, or a question.
    """
    query = query[:MAX_QUERY_CHARS]
    normal = normalise(query)
    han = words = 0
    for match in RUNS.finditer(normal.text):
        start, end = match.span()
        if match.lastgroup != "word":
            han += end - start
            continue
        words += 1
        low, high = normal.span(start, end)
        if is_code(match[0], capitals(query[low:high], match[0])):
            return "identifier"
    if han + 2 * words <= _SHORT_HAN and words <= _SHORT_WORDS and not _ASKS.search(query):
        return "short"
    return "sentence"


def query_script(query: str) -> Script | None:
    """What most of a query is written in, a Han character counting as much as a Latin word; None: in neither, or in
    both alike."""
    text = normalise(query[:MAX_QUERY_CHARS]).text
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if han == latin:
        return None
    return "han" if han > latin else "latin"


def highlight_spans(text: str, lexemes: Collection[str], terms: Terms | None = None) -> list[tuple[int, int]]:
    """Where `text` (as shown to people) matches the lexemes: (start, end) ranges, joined where they touch.

    Lone Han characters are marked only when nothing longer was asked for.
    """
    wanted = set(lexemes)
    longer = {lexeme for lexeme in wanted if len(lexeme) > 1 or not re.match(f"[{HAN}]", lexeme)}
    wanted = longer or wanted
    spans: list[tuple[int, int]] = []
    for token in tokenise(text, terms):
        if token.lexeme not in wanted:
            continue
        if spans and token.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], token.end))
        else:
            spans.append((token.start, token.end))
    return spans
