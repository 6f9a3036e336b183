"""Evaluation sets as files: CSV or JSON lines, read row by row; what is wrong with a row is said with its number.

Columns (or keys): `question`; what is expected as `document` (name, path or id in the base), `chunk` (its number) or
`snippet` (text), at least one of them; `grade` (1 to 10, 1 when empty). Rows with the same question are one case.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop

from knowledge.access import searchable_documents, visible_chunks
from knowledge.models import Document, EvaluationCase, KnowledgeBase
from knowledge.quality import cases
from knowledge.quality.cases import Target
from portal.kernel.errors import ArchwayError, Invalid, sentence_of
from portal.kernel.principal import Principal

MOST_BYTES = 5_000_000
MOST_ROWS = 20_000
FIELDS = ("question", "document", "chunk", "snippet", "grade")
# What other tools call the columns.
_NAMES = {
    "question": "question", "query": "question", "text": "question", "问题": "question", "提问": "question",
    "document": "document", "doc": "document", "file": "document", "文档": "document", "文件": "document",
    "chunk": "chunk", "chunk_id": "chunk", "分段": "chunk",
    "snippet": "snippet", "answer": "snippet", "passage": "snippet", "expected": "snippet", "片段": "snippet",
    "答案": "snippet", "原文": "snippet",
    "grade": "grade", "score": "grade", "relevance": "grade", "等级": "grade",
}  # fmt: skip
_NO_QUESTION = gettext_noop("There is no question in this row.")
_NOTHING = gettext_noop("Name a document, a chunk or a text that answers.")
_NO_DOCUMENT = gettext_noop("There is no document %(name)s in this base.")
_MANY = gettext_noop("There are several documents named %(name)s; give the path or the id.")
_NO_CHUNK = gettext_noop("There is no chunk %(name)s in this base.")
_GRADE = gettext_noop("The grade is a number from 1 to 10, not %(name)s.")
_LINE = gettext_noop("This line is no JSON object.")


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Why a row was left out; `row` counts from 1, the head of a table included."""

    row: int
    message: str
    params: dict[str, str]

    def sentence(self) -> str:
        """In the reader's language."""
        return sentence_of(self.message, self.params)


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a file: cases added, questions that the set had, and rows left out."""

    added: int
    known: int
    problems: list[RowProblem]


class _Wrong(Exception):
    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.message, self.name = message, name


def import_file(principal: Principal, base: KnowledgeBase, data: bytes, name: str) -> Imported:
    """Read a file into a base's set; good rows are kept whatever the others are.

    Raises `Invalid` (case_file_invalid, case_file_too_large) when nothing of it can be read as rows.
    """
    if len(data) > MOST_BYTES:
        raise too_large()
    problems: list[RowProblem] = []
    wanted: dict[str, tuple[int, str, list[Target]]] = {}
    for number, row in rows_of(data, name):
        try:
            if row is None:
                raise _Wrong(_LINE)
            question, target = _read(principal, base, row)
        except _Wrong as wrong:
            problems.append(RowProblem(number, wrong.message, {"name": wrong.name[:200]} if wrong.name else {}))
            continue
        wanted.setdefault(cases.digest_of(question), (number, question, []))[2].append(target)
    added = known = 0
    for number, question, targets in wanted.values():
        try:
            cases.add(principal, base, question, targets, origin=EvaluationCase.Origin.UPLOAD)
            added += 1
        except ArchwayError as error:
            if error.code == "case_taken":
                known += 1
            else:
                params = {key: str(value) for key, value in error.params.items()}
                problems.append(RowProblem(number, error.message, params))
    return Imported(added, known, sorted(problems, key=lambda row: row.row))


def rows_of(data: bytes, name: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Rows by the names of our columns, with their number; None for a line that is no JSON object."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("gb18030", "replace")
    if name.lower().endswith((".jsonl", ".ndjson", ".json")) or text.lstrip().startswith("{"):
        yield from _json_lines(text)
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in text.split("\n", 1)[0] else ",")
    head: list[str] | None = None
    try:
        for cells in reader:
            if head is None:
                head = [_NAMES.get(cell.strip().lower(), "") for cell in cells]
                if "question" not in head:
                    break
            elif any(cell.strip() for cell in cells):
                yield reader.line_num, dict(zip(head, cells, strict=False))
    except csv.Error as error:
        raise _unreadable() from error
    if head is None or "question" not in head:
        raise _unreadable()


def too_large() -> Invalid:
    """What is said of a file above `MOST_BYTES`."""
    return Invalid("The file is larger than %(most)s MB.", code="case_file_too_large", most=MOST_BYTES // 1_000_000)


def target_of(principal: Principal, base: KnowledgeBase, row: dict[str, Any]) -> Target:
    """What one row expects, by the names of `FIELDS`. Raises `Invalid` (target_unknown), worded as a row's problem."""
    try:
        return _read(principal, base, row)[1]
    except _Wrong as wrong:
        raise Invalid(wrong.message, code="target_unknown", name=wrong.name) from wrong


def _unreadable() -> Invalid:
    return Invalid(
        "The file needs a column named question, and document, chunk or snippet beside it.", code="case_file_invalid"
    )


def _json_lines(text: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    for number, line in enumerate(text.splitlines()[:MOST_ROWS], 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, {_NAMES.get(str(key).lower(), ""): value for key, value in row.items()}
        else:
            yield number, None


def _read(principal: Principal, base: KnowledgeBase, row: dict[str, Any]) -> tuple[str, Target]:
    cell = {
        name: str(row.get(name) if row.get(name) is not None else "").replace("\x00", "").strip() for name in FIELDS
    }
    if not cell["question"]:
        raise _Wrong(_NO_QUESTION)
    grade = cell["grade"] or "1"
    if not grade.isdecimal() or len(grade) > 2 or not 1 <= int(grade) <= 10:
        raise _Wrong(_GRADE, grade)
    if cell["chunk"]:
        return cell["question"], _chunk(principal, base, cell["chunk"], int(grade))
    if not cell["document"] and not cell["snippet"]:
        raise _Wrong(_NOTHING)
    document = _document(principal, base, cell["document"]) if cell["document"] else None
    return cell["question"], Target(document, cell["snippet"], int(grade))


def _chunk(principal: Principal, base: KnowledgeBase, name: str, grade: int) -> Target:
    rows = visible_chunks(principal).filter(revision__document__base=base).select_related("revision__document")
    digits = name.removeprefix("c_")
    chunk = rows.filter(pk=int(digits)).first() if digits.isdecimal() and len(digits) < 18 else None
    if chunk is None:
        raise _Wrong(_NO_CHUNK, name)
    return cases.target_of_chunk(base, chunk, grade)


def _document(principal: Principal, base: KnowledgeBase, name: str) -> Document:
    """By id, then path, then name; each as it is written in the base."""
    rows = searchable_documents(principal).filter(base=base)
    for found in (rows.filter(uid=name), rows.filter(source_key=name), rows.filter(name=name)):
        documents = list(found[:2])
        if len(documents) == 1:
            return documents[0]
        if documents:
            raise _Wrong(_MANY, name)
    raise _Wrong(_NO_DOCUMENT, name)
