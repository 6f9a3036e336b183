"""Which citations of a model's answer stand: only numbers of passages that it was given, written `[n]`.

Works on an answer as it comes, piece by piece: what could still become a citation is held back. Code is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_NUMBERS = r"\d{1,3}(?:\s*[,，、;–-]\s*\d{1,3})*"
_CITATION = re.compile(rf"(?P<space>[ \t]*)[\[【［]\s*\^?(?P<numbers>{_NUMBERS})\s*[\]】］]")
# A beginning that the next piece may complete.
_UNFINISHED = re.compile(r"[ \t]*(?:[\[【［]\s*\^?(?:\d{1,3}(?:\s*[,，、;–-]\s*\d{0,3})*)?\s*)?$|(?<!`)`{1,2}$")
_TOKEN = re.compile(rf"```|`|\n|{_CITATION.pattern}")
_PART = re.compile(r"(\d{1,3})(?:\s*[–-]\s*(\d{1,3}))?")
_LONGEST = 60


class CheckedCitations:
    """`feed` takes what the model wrote and returns what may be shown; `end` returns the rest."""

    def __init__(self, given: Collection[int]) -> None:
        self._given = frozenset(given)
        self._held = ""
        self._fenced = False
        self._inline = False
        self.cited: list[int] = []
        self.removed = 0

    def feed(self, text: str) -> str:
        """What is certain by now."""
        self._held += text
        match = _UNFINISHED.search(self._held)
        keep = match.start() if match and len(self._held) - match.start() <= _LONGEST else len(self._held)
        certain, self._held = self._held[:keep], self._held[keep:]
        return self._checked(certain)

    def end(self) -> str:
        """The answer is over."""
        rest, self._held = self._held, ""
        return self._checked(rest)

    def _checked(self, text: str) -> str:
        return _TOKEN.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        found = match.group()
        if found == "```":
            self._fenced, self._inline = not self._fenced, False
        elif found == "`":
            self._inline = not self._fenced and not self._inline
        elif found == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            return self._marks(match)
        return found

    def _marks(self, match: re.Match[str]) -> str:
        numbers: list[int] = []
        for first, last in _PART.findall(match["numbers"]):
            numbers += range(int(first), int(last or first) + 1) if int(last or first) - int(first) < 20 else []
        good = [number for number in dict.fromkeys(numbers) if number in self._given]
        self.removed += len(set(numbers)) - len(good)
        self.cited += [number for number in good if number not in self.cited]
        return match["space"] + "".join(f"[{number}]" for number in good) if good else ""
