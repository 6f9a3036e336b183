"""Literals for PostgreSQL, checked by a small reader of its quoting rules."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.text import Token, query_lexemes, tokenise, tsquery_literal, tsvector_literal
from knowledge.text.postgres import MAX_POSITION, MAX_POSITIONS, MAX_VECTOR_BYTES

ENTRY = re.compile(r"'((?:[^'\\]|''|\\.)*)'(?::([0-9,]+))?", re.DOTALL)


def read(literal: str) -> dict[str, list[int]]:
    """The lexemes of a literal as PostgreSQL reads them; everything outside quotes must be blanks or ` | `."""
    assert re.fullmatch(r"[ |&]*", ENTRY.sub("", literal))
    return {
        re.sub(r"''|\\(.)", lambda found: found[1] or "'", match[1], flags=re.DOTALL): [
            int(number) for number in (match[2] or "").split(",") if number
        ]
        for match in ENTRY.finditer(literal)
    }


def test_awkward_lexemes_come_back_as_they_went_in() -> None:
    awkward = ["what's", "a\\b", "c++", "world:3", "&", "-----", "😀", "'", "\\'", "it''s"]
    assert list(read(tsquery_literal(awkward) or "")) == awkward
    tokens = [Token(lexeme, 0, 1, place) for place, lexeme in enumerate(awkward, 1)]
    assert read(tsvector_literal(tokens)) == {lexeme: [place] for place, lexeme in enumerate(awkward, 1)}


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@settings(deadline=None)
def test_any_text_gives_a_readable_vector_and_query(text: str) -> None:
    tokens = tokenise(text)
    assert set(read(tsvector_literal(tokens))) == {token.lexeme for token in tokens}
    asked = query_lexemes(text)
    literal = tsquery_literal(asked)
    assert (literal is None) == (not asked)
    assert list(read(literal or "")) == asked


def test_positions_are_bounded_in_value_and_number() -> None:
    literal = tsvector_literal(Token("x", i, i + 1, i) for i in range(1, 40_000))
    positions = read(literal)["x"]
    assert len(positions) == MAX_POSITIONS
    assert max(read(tsvector_literal([Token("y", 0, 1, 99_999)]))["y"]) == MAX_POSITION


def test_a_vector_stays_below_the_limit_of_the_server() -> None:
    tokens = [Token(f"lexeme{number:07}", number, number + 1, number) for number in range(200_000)]
    vector = read(tsvector_literal(tokens))
    assert sum(len(lexeme) + 1 + 2 * len(places) for lexeme, places in vector.items()) < MAX_VECTOR_BYTES
    assert "lexeme0000000" in vector


def test_no_lexemes_give_no_query() -> None:
    assert tsquery_literal([]) is None
    assert tsvector_literal([]) == ""
