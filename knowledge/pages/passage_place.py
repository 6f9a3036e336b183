"""Where a cited passage stands in a revision's parsed text: exactly there, or nowhere. A guess is never marked."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.chunks import history
from knowledge.models import Chunk
from knowledge.text import clean


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets into `ParsedDocument.text`; `end` is one past the last character."""

    start: int
    end: int

    def cut(self, start: int, end: int) -> Span | None:
        """The part of this span within [start, end), or None."""
        low, high = max(self.start, start), min(self.end, end)
        return Span(low, high) if low < high else None


def as_cited(chunk: Chunk, raw_version: str) -> Chunk:
    """The passage as the version says that a citation names (`?v=2`; without one the first): text and place, unsaved.

    The passage itself when it still reads so; `version` and `level` of the answer tell what it is.
    """
    number = int(raw_version) if raw_version.isdecimal() and len(raw_version) <= 9 else 1
    kept = history.cited(chunk, number)
    if kept is None:
        return chunk
    state = history.state_at(kept)
    return Chunk(
        pk=chunk.pk,
        revision=chunk.revision,
        level=Chunk.Level.PASSAGE,
        text=kept.text,
        prefix=state.prefix,
        start=state.start,
        end=state.end,
        page=state.page,
        version=kept.number,
    )


def locate(text: str, chunk: Chunk) -> Span | None:
    """The chunk's place in the parsed text, or None when the text there is not what was cited.

    An edited chunk, and one whose revision was parsed anew with another outcome, has no place.
    """
    if not 0 <= chunk.start < chunk.end <= len(text):
        return None
    there = clean(text[chunk.start : chunk.end])
    cited = chunk.text.removeprefix(chunk.prefix)
    # A part of a code block carries fences of its own around what stands in the text.
    whole = there == cited or (bool(chunk.prefix) and cited.startswith(there) and len(cited) - len(there) < 12)
    if there.strip() and (whole or _is_row_of(there, cited)):
        return Span(chunk.start, chunk.end)
    return None


def _is_row_of(there: str, cited: str) -> bool:
    """Whether the citation is made of the cells of this one table row (question-and-answer splitting)."""
    if not there.startswith("|") or "\n" in there.strip():
        return False
    flat = _flat(there)
    lines = [line for line in cited.split("\n") if line.strip()]
    return bool(lines) and all(_flat(line) in flat for line in lines)


def _flat(text: str) -> str:
    return "".join(text.replace("\\|", "|").split())
