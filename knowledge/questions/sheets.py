"""Sheets of questions for passages that are there: document, passage and question, one question a row.

A passage is named by its id, by one of its headings, or by how its text begins; a document with one passage
needs no name for it. What is wrong with a row is told, and the other rows are taken over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import gettext_noop

from knowledge.access import visible_documents
from knowledge.models import Chunk, ChunkQuestion, Document, KnowledgeBase
from knowledge.questions import verbs
from knowledge.sources.question_sheets import RowProblem, rows_of
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.principal import Principal

_TITLES = {
    "question": re.compile(r"问题?|提问|questions?|q|query"),
    "document": re.compile(r"文档名?称?|文件名?|documents?|files?|path|document name"),
    "passage": re.compile(r"段落|分段|标题|章节|chunks?|passages?|headings?|section|chunk id"),
}
MOST_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many questions are new, how many were there already, and what is wrong with the other rows."""

    added: int
    there: int
    problems: tuple[RowProblem, ...]


def import_sheet(principal: Principal, base: KnowledgeBase, path: Path, name: str) -> Outcome:
    """Raises `Invalid` (not_a_sheet, columns_missing, too_many_rows) and the parsers' errors."""
    return take_over(principal, base, rows_of(path, name))


def take_over(principal: Principal, base: KnowledgeBase, rows: Sequence[tuple[str, int, list[str]]]) -> Outcome:
    """The same from rows of cells: (sheet, row number, cells). The base comes from `access_base(…, EDITOR)`."""
    if len(rows) > MOST_ROWS:
        raise Invalid(
            "A sheet of questions takes at most %(limit)s rows; split it.", code="too_many_rows", limit=MOST_ROWS
        )
    columns = _columns(rows[0][2]) if rows else {}
    if not columns:
        raise Invalid(
            "No columns for document and question were found; name them in the first row.", code="columns_missing"
        )
    documents: dict[str, list[Document]] = {}
    for document in visible_documents(principal).filter(base=base).select_related("base", "active_revision"):
        documents.setdefault(document.name.casefold(), []).append(document)
        if document.folder:
            documents[document.source_key.casefold()] = [document]
    wanted: dict[int, tuple[Chunk, list[tuple[str, int, str]]]] = {}
    problems: list[RowProblem] = []
    for sheet, number, cells in rows[1:]:
        cell = {kind: cells[place].strip() if place < len(cells) else "" for kind, place in columns.items()}
        try:
            text = verbs.checked(cell["question"])
            chunk = _passage(_document(documents, cell["document"]), cell.get("passage", ""))
        except ArchwayError as error:
            problems.append(RowProblem(sheet, number, error.message, code=error.code, **error.params))
            continue
        wanted.setdefault(chunk.pk, (chunk, []))[1].append((sheet, number, text))
    added = there = 0
    for chunk, questions in wanted.values():
        try:
            new = verbs.add(principal, chunk, [text for _, _, text in questions], source=ChunkQuestion.Origin.IMPORTED)
        except ArchwayError as error:
            sheet, number, _ = questions[0]
            problems.append(RowProblem(sheet, number, error.message, code=error.code, **error.params))
            continue
        added += len(new)
        there += len(questions) - len(new)
    return Outcome(added, there, tuple(sorted(problems, key=lambda one: (one.sheet, one.row))))


def _columns(cells: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, cell in enumerate(cells):
        title = " ".join(cell.casefold().split())
        kind = next((kind for kind, looks in _TITLES.items() if looks.fullmatch(title)), None)
        if kind is not None:
            found.setdefault(kind, place)
    return found if {"question", "document"} <= found.keys() else {}


def _document(documents: dict[str, list[Document]], name: str) -> Document:
    found = documents.get(name.strip("/").casefold(), [])
    if len(found) != 1:
        message = (
            gettext_noop("Several documents are named %(name)s; write the folder too.")
            if found
            else gettext_noop("There is no document named %(name)s.")
        )
        raise Invalid(message, code="row_document", name=name[:200])
    if found[0].active_revision is None:
        raise Invalid(gettext_noop("%(name)s is not searchable yet."), code="row_document", name=name[:200])
    return found[0]


def _passage(document: Document, named: str) -> Chunk:
    rows = Chunk.objects.defer("lexemes").filter(revision=document.active_revision, level=Chunk.Level.PASSAGE)
    if named.isdecimal() and len(named) < 18:
        found = list(rows.filter(pk=int(named))[:2])
    elif named:
        found = list(rows.filter(heading_path__contains=[named])[:2]) or list(rows.filter(text__startswith=named)[:2])
    else:
        found = list(rows[:2])
    if len(found) != 1:
        message = (
            gettext_noop("Several passages fit; name one by its id, its heading, or its beginning.")
            if found
            else gettext_noop("There is no such passage in this document.")
        )
        raise Invalid(message, code="row_passage")
    return found[0]
