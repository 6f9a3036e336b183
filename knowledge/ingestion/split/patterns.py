"""What the `regex` package does for splitting: patterns of people, in time, and characters as people see them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import regex  # type: ignore[import-untyped]

from portal.kernel.errors import Invalid

Pattern = Any  # regex.Pattern[str]; the package has no types

_MAX_PATTERNS = 20
_MAX_PATTERN_CHARS = 500
# `regex` copies what is repeated at least so often, groups within groups: 99 nested `(?:…)+` fill any memory.
_MAX_COPIES = 1_000
_REPEATED = regex.compile(r"\)(?:(\+)|\{(\d+)[^}]*\})")
# Calls of groups are copied too and recurse without end; in verbose patterns a repeat need not follow its group.
_REFUSED = regex.compile(r"\(\?(?:R|[+-]?\d|&|P>|[a-zA-Z]*x)")
_CHARACTER = regex.compile(r"\X")


class Clock:
    """The time that all patterns together may take on one document."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never quite none (0 means no limit to `regex`)."""
        return max(0.001, self._deadline - time.monotonic())

    def is_over(self) -> bool:
        return time.monotonic() > self._deadline


def compiled(patterns: Sequence[str], separators: Sequence[str] = ()) -> list[Pattern]:
    """Plain separators and regular expressions, compiled. Raises `Invalid` (`bad_pattern`) naming the one at fault."""
    if len(patterns) + len(separators) > _MAX_PATTERNS:
        raise Invalid("At most %(limit)s patterns can be used.", code="bad_pattern", limit=_MAX_PATTERNS)
    done = [regex.compile(regex.escape(separator)) for separator in separators if separator]
    for pattern in patterns:
        try:
            if len(pattern) > _MAX_PATTERN_CHARS or _copies(pattern) > _MAX_COPIES or _REFUSED.search(pattern):
                raise regex.error("too long")
            done.append(regex.compile(pattern, regex.MULTILINE))
        except (regex.error, RecursionError, OverflowError) as error:
            message = "The pattern %(pattern)s is not a valid regular expression."
            raise Invalid(message, code="bad_pattern", pattern=pattern[:80]) from error
    return done


def _copies(pattern: str) -> int:
    """How often the innermost group may be copied, were all repeated groups nested in each other."""
    return math.prod(
        2 if found[1] else min(int(found[2][:9]), _MAX_COPIES) + 1 for found in _REPEATED.finditer(pattern)
    )


def matches(pattern: Pattern, text: str, clock: Clock) -> Iterator[tuple[int, int]]:
    """(start, end) of each match. Raises `Invalid` (`pattern_too_slow`) when the clock runs out."""
    try:
        for match in pattern.finditer(text, timeout=clock.left()):
            yield match.span()
            if clock.is_over():
                raise TimeoutError
    except (TimeoutError, MemoryError) as error:
        raise _too_slow(pattern) from error


def without(pattern: Pattern, text: str, clock: Clock) -> str:
    """`text` without the matches. Raises `Invalid` (`pattern_too_slow`) when the clock runs out."""
    try:
        return str(pattern.sub("", text, timeout=clock.left()))
    except (TimeoutError, MemoryError) as error:
        raise _too_slow(pattern) from error


def character_start(text: str, low: int, cut: int) -> int:
    """The last place in (low, cut] that parts no character as people see it; `cut` when there is none."""
    last = low
    for match in _CHARACTER.finditer(text, pos=low, endpos=min(len(text), cut + 16)):
        if match.end() > cut:
            break
        last = match.end()
    return last if last > low else cut


def _too_slow(pattern: Pattern) -> Invalid:
    message = "The pattern %(pattern)s takes too long on this document."
    return Invalid(message, code="pattern_too_slow", pattern=pattern.pattern[:80])
