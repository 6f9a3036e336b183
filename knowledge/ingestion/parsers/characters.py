"""Which characters a parser may hand on: what PostgreSQL, JSON and UTF-8 can store.

NUL and the other control characters are taken out, a lone surrogate becomes U+FFFD, every kind of
line end becomes `\\n`. The two marks that force letters to run backwards are taken out as well: with
them a text reads as another than it is, wherever it is shown. Everything else stays as the author
wrote it; folding for search is done elsewhere.
"""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202d\u202e\ud800-\udfff\ufffe\uffff\r\x85]")
_RAISED = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
LONGEST_FIGURE = 8
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def storable(text: str) -> str:
    """`text` without the characters that nothing downstream can store."""
    if not _UNSTORABLE.search(text):
        return text
    text = _PAIR.sub(lambda found: found[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _UNSTORABLE.sub(_replacement, text.replace("\r\n", "\n"))


def figures(text: str, *, raised: bool) -> str:
    """An exponent or index as raised or lowered figures where there are such: `10⁶` is not 106. NFKC undoes it."""
    table = _RAISED if raised else _LOWERED
    short = text.strip()
    if not 0 < len(short) <= LONGEST_FIGURE or any(ord(sign) not in table for sign in short):
        return text
    return short.translate(table)


def _replacement(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\r\x85\x0b\x0c":
        return "\n"
    return "\ufffd" if "\ud800" <= character <= "\udfff" else ""
