"""Sheets of questions and answers: which columns they have, which rows can be used, and what is wrong with the rest.

What is imported is a table of our own, one good row a line, split so that each row is one chunk.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.utils.translation import gettext_noop

from knowledge import intake
from knowledge.ingestion.blocks import Source as File
from knowledge.ingestion.sandbox import SandboxLimits, parse_file
from knowledge.ingestion.sniff import sniff
from knowledge.models import KnowledgeBase
from knowledge.questions import verbs as questions
from portal.kernel.errors import Invalid
from portal.kernel.principal import Principal

READER = "knowledge.ingestion.question_sheet:parse"
READABLE = frozenset(
    {
        "text/csv",
        "text/tab-separated-values",
        "text/plain",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.ms-excel",
    }
)
HEAD_WITHIN = 10  # rows; titles and hints may stand above the head
LONGEST_QUESTION, LONGEST_ANSWER = 1_000, 50_000
MOST_SIMILAR = 50

Column = Literal["question", "answer", "similar", "tags"]
_TITLES: dict[Column, re.Pattern[str]] = {
    "similar": re.compile(
        r"相似问[题法]?\d*|扩展问[题法]?\d*|其他问法\d*|问法\d*|similar ?questions?\d*|alternative ?questions?\d*|"
        r"aliases|variants|other ?questions?\d*"
    ),
    "question": re.compile(r"问题?|标准问题?|提问|问题内容|q|questions?|faq|query|prompt"),
    "answer": re.compile(r"答案?|标准答案?|回答|答复|解答|回复|答案内容|a|answers?|reply|response"),
    "tags": re.compile(r"标签|分类|类别|类目|tags?|category|categories|labels?|topic"),
}
_DECORATION = re.compile(r"[*＊:：_]|[(（\[【].*?[)）\]】]")
_SIMILAR_ENDS, _TAG_ENDS = re.compile(r"[\n;；|]+"), re.compile(r"[\n,，、;；|]+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A question (and other ways to ask it) with its answer, and the row it stands in."""

    sheet: str
    row: int
    questions: tuple[str, ...]
    answer: str
    tags: tuple[str, ...] = ()


class RowProblem(Invalid):
    """What is wrong with one row; it is left out."""

    default_code = "row_invalid"

    def __init__(self, sheet: str, row: int, message: str, *, code: str, **params: object) -> None:
        super().__init__(message, code=code, **params)
        self.sheet, self.row = sheet, row


@dataclass(frozen=True, slots=True)
class QuestionSheet:
    """What a file holds: the rows that can be imported, and what is wrong with the others."""

    pairs: tuple[Pair, ...]
    problems: tuple[RowProblem, ...]
    chinese: bool


def read_sheet(path: Path, name: str) -> QuestionSheet:
    """The pairs and problems of a CSV, TSV or XLSX file. Nothing is kept.

    Raises `Invalid`: not_a_sheet (another type), columns_missing (no head row with question and answer), and the
    parsers' errors.
    """
    return judge(rows_of(path, name))


def rows_of(path: Path, name: str) -> list[tuple[str, int, list[str]]]:
    """(sheet, row number, cells) of a CSV, TSV or XLSX file, blank rows left out; read in a child process.

    Raises `Invalid` (not_a_sheet) and the parsers' errors.
    """
    mime = sniff(path, name)
    if mime not in READABLE:
        raise Invalid("Import questions from a CSV or XLSX file.", code="not_a_sheet")
    limits = SandboxLimits(memory_mb=settings.ARCHWAY["PARSE_MEMORY_MB"], cpu_seconds=30, wall_seconds=30)
    document = parse_file(File(path, name, mime), limits, parser=READER)
    return [(sheet, number, cells) for sheet, number, cells in json.loads(document.text)]


def judge(rows: Sequence[tuple[str, int, list[str]]]) -> QuestionSheet:
    """The same from rows of cells: (sheet, row number, cells). Raises `Invalid` (columns_missing)."""
    pairs: list[Pair] = []
    problems: list[RowProblem] = []
    seen: dict[str, Pair] = {}
    found = chinese = False
    for sheet in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == sheet]
        head = next((place for place, row in enumerate(mine[:HEAD_WITHIN]) if _columns(row[2])), None)
        if head is None:
            continue
        found = True
        columns = _columns(mine[head][2])
        chinese = chinese or any("\u4e00" <= letter <= "\u9fff" for letter in "".join(mine[head][2]))
        for _, number, cells in mine[head + 1 :]:
            judged = _judge_row(sheet, number, cells, columns, seen)
            if isinstance(judged, Pair):
                judged, wrong = _without_repeats(judged, seen)
                problems.extend(wrong)
                pairs.append(judged)
                seen |= {_bare(question): judged for question in judged.questions}
            else:
                problems.append(judged)
    if not found:
        raise Invalid(
            "No columns for question and answer were found; name them in the first row, for example in the template.",
            code="columns_missing",
        )
    return QuestionSheet(tuple(pairs), tuple(problems), chinese)


def _columns(cells: Sequence[str]) -> dict[Column, list[int]]:
    """The places of the known columns; empty unless there are question and answer."""
    found: dict[Column, list[int]] = {}
    for place, cell in enumerate(cells):
        title = " ".join(_DECORATION.sub(" ", cell).casefold().split())
        kind = next((kind for kind, looks in _TITLES.items() if looks.fullmatch(title)), None)
        if kind is not None and (kind == "similar" or kind not in found):
            found.setdefault(kind, []).append(place)
    return found if {"question", "answer"} <= found.keys() else {}


def _judge_row(
    sheet: str, row: int, cells: Sequence[str], columns: dict[Column, list[int]], seen: dict[str, Pair]
) -> Pair | RowProblem:
    def cell(kind: Column) -> str:
        return "\n".join(cells[place].strip() for place in columns.get(kind, []) if place < len(cells)).strip()

    question, answer = " ".join(cell("question").split()), cell("answer")

    def wrong(*, code: str, message: str, **params: object) -> RowProblem:
        return RowProblem(sheet, row, message, code=code, **params)

    if not question:
        return wrong(code="question_missing", message=gettext_noop("The question is missing."))
    if not answer:
        return wrong(code="answer_missing", message=gettext_noop("The answer is missing."))
    for text, limit in ((question, LONGEST_QUESTION), (answer, LONGEST_ANSWER)):
        if len(text) > limit:
            return wrong(
                code="cell_too_long", message=gettext_noop("A cell is longer than %(limit)s characters."), limit=limit
            )
    earlier = seen.get(_bare(question))
    if earlier is not None and earlier.answer == answer:
        return wrong(
            code="row_repeated", message=gettext_noop("The same row stands in row %(other)s."), other=earlier.row
        )
    if earlier is not None:
        return wrong(
            code="question_repeated",
            message=gettext_noop("Row %(other)s asks the same and has another answer; that one is taken."),
            other=earlier.row,
        )
    similar = [" ".join(part.split()) for part in _SIMILAR_ENDS.split(cell("similar"))]
    asked = list(dict.fromkeys(part for part in (question, *similar) if part))[: MOST_SIMILAR + 1]
    tags = [" ".join(part.split())[:60] for part in _TAG_ENDS.split(cell("tags"))]
    return Pair(sheet, row, tuple(asked), answer, tuple(dict.fromkeys(tag for tag in tags if tag)))


def _without_repeats(pair: Pair, seen: dict[str, Pair]) -> tuple[Pair, list[RowProblem]]:
    """The pair without other ways to ask that an earlier row has or that are too long, and what is wrong with these."""
    kept, problems = [pair.questions[0]], []
    for text in pair.questions[1:]:
        earlier = seen.get(_bare(text))
        if len(text) > questions.LONGEST:
            message = gettext_noop("A similar question is longer than %(limit)s characters; it is left out.")
            limit = questions.LONGEST
            problems.append(RowProblem(pair.sheet, pair.row, message, code="similar_too_long", limit=limit))
        elif earlier is not None:
            message = gettext_noop("Row %(other)s has the similar question “%(question)s” already; it stays there.")
            told = {"other": earlier.row, "question": text[:80]}
            problems.append(RowProblem(pair.sheet, pair.row, message, code="similar_repeated", **told))
        else:
            kept.append(text)
    return replace(pair, questions=tuple(kept)), problems


def _bare(question: str) -> str:
    return re.sub(r"[\W_]+", "", question.casefold()) or question


def import_sheet(
    principal: Principal,
    base: KnowledgeBase,
    sheet: QuestionSheet,
    name: str,
    *,
    folder: str = "",
    same_name: intake.SameName = "revision",
) -> intake.Received:
    """Make the good rows a document, each row one chunk. Raises `Invalid` (no_pairs) and as `intake.receive`."""
    if not sheet.pairs:
        raise Invalid("No row of this sheet can be imported.", code="no_pairs")
    stem = Path(intake.clean_path(name)[1]).stem or "questions"
    with tempfile.TemporaryDirectory(prefix="archway-questions-") as place:
        path = Path(place) / "sheet"
        path.write_text(as_csv(sheet), encoding="utf-8-sig")
        return intake.receive(
            principal,
            base,
            path,
            f"{stem}.csv",
            folder=folder,
            same_name=same_name,
            splitting={"mode": "qa", "question_column": "", "answer_column": ""},
        )


def as_csv(sheet: QuestionSheet) -> str:
    """The good rows as a table that the splitter knows; line breaks inside cells as Markdown writes them."""
    ways = max((len(pair.questions) for pair in sheet.pairs), default=1) - 1
    tagged = any(pair.tags for pair in sheet.pairs)
    words = (
        ("问题", "答案", "相似问题", "标签") if sheet.chinese else ("Question", "Answer", "Similar question", "Tags")
    )
    question, answer, similar, tags = words
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([question, answer, *(f"{similar} {n}" for n in range(1, ways + 1)), *([tags] if tagged else [])])
    for pair in sheet.pairs:
        others = [*pair.questions[1:], *[""] * (ways + 1 - len(pair.questions))]
        row = [pair.questions[0], pair.answer, *others, *([", ".join(pair.tags)] if tagged else [])]
        writer.writerow([re.sub(r"\s*\n\s*", "<br>", cell) for cell in row])
    return out.getvalue()
