"""CSV as people write it: the scanner that turns text into rows, whatever the quotes look like.

Why not the `csv` module: one unbalanced quote there swallows the rest of the file, silently. Rules
here, beyond RFC 4180: a quote inside an unquoted field is a character; so is a quote inside a quoted
field unless a separator or the end of the line follows; and a field whose quote never closes, or
would swallow the opening quote of a later row, was not quoted at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

SEPARATORS = (",", ";", "\t", "|")
SAMPLE_ROWS = 200
SAMPLE_CHARACTERS = 1_000_000


@dataclass(slots=True)
class Scan:
    """Rows of `text`, and in `unclosed` the numbers (from 1) of rows whose quotes made no sense."""

    text: str
    separator: str
    unclosed: list[int] = field(default_factory=list)

    def rows(self) -> Iterator[list[str]]:
        """Each row as its fields; blank lines give `[""]`."""
        text, separator = self.text, self.separator
        position, size, number = 0, len(text), 0
        dead_until = -1  # up to here no opening quote finds its closing one
        while position < size:
            number += 1
            end = text.find("\n", position)
            end = size if end < 0 else end
            line = text[position:end]
            if '"' not in line:
                position = end + 1
                yield line.split(separator)
                continue
            fields: list[str] = []
            while True:
                if text.startswith(' "', position) and fields:  # `a, "b, c"`: a blank before the quote means nothing
                    position += 1
                if text.startswith('"', position) and position > dead_until:
                    value, after, dead = self._quoted(position)
                    if value is not None:
                        fields.append(value)
                        position = after
                        if text.startswith(separator, position):
                            position += 1
                            continue
                        position += 1
                        break
                    dead_until = dead
                    self._note(number)
                elif text.startswith('"', position):
                    self._note(number)
                value, position, last = self._plain(position)
                fields.append(value)
                if last:
                    break
            yield fields

    def _note(self, number: int) -> None:
        if not self.unclosed or self.unclosed[-1] != number:
            self.unclosed.append(number)

    def _plain(self, position: int) -> tuple[str, int, bool]:
        """An unquoted field: its text, where the next field or row begins, and whether the row ends."""
        text = self.text
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        cut = text.find(self.separator, position, end)
        if cut < 0:
            return text[position:end], end + 1, True
        return text[position:cut], cut + 1, False

    def _quoted(self, opening: int) -> tuple[str | None, int, int]:
        """A quoted field and the place behind its closing quote, or None and where the search ended."""
        text, separator = self.text, self.separator
        size = len(text)
        at = opening + 1
        line_end = text.find("\n", at)
        line_end = size if line_end < 0 else line_end
        while True:
            at = text.find('"', at)
            if at < 0:
                return None, 0, size
            following = text[at + 1 : at + 2]
            if following == '"':
                at += 2
                continue
            if following in (separator, "\n", ""):
                return text[opening + 1 : at].replace('""', '"'), at + 1, 0
            if at > line_end and text[at - 1] in (separator, "\n"):
                return None, 0, at - 1  # the opening quote of a later field
            at += 1


def separator_of(text: str, preferred: str = ",") -> str:
    """The separator that gives the most rows the same number of fields, at least two; else `preferred`."""
    sample = text[:SAMPLE_CHARACTERS]
    best, best_score = preferred, 0.0
    for separator in dict.fromkeys((preferred, *SEPARATORS)):
        widths = Counter(
            len(row) for row in islice(Scan(sample, separator).rows(), SAMPLE_ROWS) if any(map(str.strip, row))
        )
        wide = {width: count for width, count in widths.items() if width > 1}
        if not wide:
            continue
        width, count = max(wide.items(), key=lambda item: (item[1], item[0]))
        total = sum(widths.values())
        score = count / total * (1 + min(width, 20) / 100) + (sum(wide.values()) / total) * 0.5
        if score > best_score:
            best, best_score = separator, score
    return best
