"""Lexemes as PostgreSQL literals, so that no text of a person ever reaches a tsvector or tsquery parser.

Bind the results as parameters and cast them: `%s::tsvector`, `%s::tsquery`. Limits are those of
PostgreSQL's documentation, "Text Search: Limitations": a lexeme below 2 kB (ours are bounded by the
tokeniser), positions up to 16,383 and at most 256 a lexeme, a tsvector below 1 MB.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from knowledge.text.tokeniser import Token

MAX_POSITION = 16_383
MAX_POSITIONS = 255
MAX_VECTOR_BYTES = 1_048_575


def tsvector_literal(tokens: Iterable[Token]) -> str:
    """The text of a tsvector with positions; empty when there are no tokens.

    A lexeme that would take the vector over its size limit is left out, the first ones stay.
    """
    places: dict[str, list[int]] = {}
    for token in tokens:
        positions = places.setdefault(token.lexeme, [])
        position = min(token.position, MAX_POSITION)
        if len(positions) < MAX_POSITIONS and (not positions or positions[-1] != position):
            positions.append(position)
    parts: list[str] = []
    size = 0
    for lexeme, positions in places.items():
        # The stored form: the bytes, up to one of padding, a count and two bytes a position.
        size += len(lexeme.encode("utf-8")) + 3 + 2 * len(positions)
        if size > MAX_VECTOR_BYTES:
            break
        parts.append(f"{quoted(lexeme)}:{','.join(map(str, positions))}")
    return " ".join(parts)


def tsquery_literal(lexemes: Iterable[str], operator: Literal["|", "&", "<->"] = "|") -> str | None:
    """The text of a tsquery over the lexemes, or None when there are none (an empty tsquery matches nothing)."""
    return f" {operator} ".join(quoted(lexeme) for lexeme in lexemes if lexeme) or None


def quoted(lexeme: str) -> str:
    """One lexeme in the quoting of the tsvector and tsquery input functions (not SQL's)."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
