"""What splitting is asked for and what it gives: settings, passages and leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SplitMode = Literal["smart", "separators", "qa", "rows"]


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How a base splits its documents. Sizes are tokens of its embedding model.

    `leaf_tokens` of 110 are about 160 Chinese or 450 English characters, the size that searches best; a
    sentence of up to twice that stays whole.
    `overlap_tokens` repeats whole sentences at the start of the next passage. `separators` (plain text)
    and `patterns` (regular expressions, all of them together at most `pattern_seconds` for a document)
    and `heading_level` (a heading of this level or above opens a segment; 0 = none) belong to
    `separators`; `question_column` and `answer_column` (header texts) to `qa`, guessed when empty.
    """

    mode: SplitMode = "smart"
    passage_tokens: int = 400
    leaf_tokens: int = 110
    overlap_tokens: int = 0
    separators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    pattern_seconds: float = 2.0
    heading_level: int = 0
    question_column: str = ""
    answer_column: str = ""


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is searched: `text` is `prefix` + document.text[start:end] + `suffix`.

    `prefix` and `suffix` are what a part of a table or of a code block needs to stand alone: the head
    of the table, the fences. In `qa` mode `text` is made of the row's cells and start:end is the row.
    `token_count` is what the base's `TokenCounter` says about `text`.
    """

    ordinal: int
    text: str
    start: int
    end: int
    token_count: int
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """What is returned and cited: consists of its leaves, and is written like one.

    `heading_path` holds the titles above all of its text, outermost first; `page`, `sheet` and `slide`
    are where it starts; `rows` are the first and last row, counted from 1; `token_count` is the sum over
    its leaves. `questions` are those of a question-answer row, further routes to the passage.
    """

    ordinal: int
    text: str
    start: int
    end: int
    token_count: int
    leaves: tuple[Leaf, ...]
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    sheet: str | None = None
    rows: tuple[int, int] | None = None
    slide: int | None = None
    prefix: str = ""
    suffix: str = ""
    questions: tuple[str, ...] = ()
