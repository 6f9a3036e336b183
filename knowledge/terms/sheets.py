"""Sheets of terms: a head row with term, synonyms and weight, one term a row; what is wrong with a row is told.

Synonyms stand in one cell (cut at ; | 、 , ， and line breaks) or in several columns.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation import gettext_noop

from knowledge.models import Term
from knowledge.sources.question_sheets import RowProblem, rows_of
from knowledge.terms.verbs import Wanted, wanted
from portal.kernel.csv_cells import inert, typed
from portal.kernel.errors import Invalid

_TERM = re.compile(r"术语|词条?|关键词|主词|名称|terms?|words?|name")
_SYNONYMS = re.compile(r"同义词\d*|别名\d*|近义词\d*|synonyms? ?\d*|alias(es)? ?\d*")
_WEIGHT = re.compile(r"权重|weights?|boost")
_ENDS = re.compile(r"[\n;；|、,，]+")


@dataclass(frozen=True, slots=True)
class TermSheet:
    """The rows that can be taken over, and what is wrong with the others."""

    terms: tuple[Wanted, ...]
    problems: tuple[RowProblem, ...]


def read_sheet(path: Path, name: str) -> TermSheet:
    """Raises `Invalid` (not_a_sheet, columns_missing) and the parsers' errors."""
    return judge(rows_of(path, name))


def judge(rows: Sequence[tuple[str, int, list[str]]]) -> TermSheet:
    """The same from rows of cells; without a head row the first column is the term, the others are synonyms."""
    found: dict[str, Wanted] = {}
    problems: list[RowProblem] = []
    lines: dict[str, int] = {}
    for sheet in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == sheet]
        columns = _columns(mine[0][2])
        for _, number, cells in mine[1:] if columns else mine:
            try:
                new = _row(cells, columns)
            except Invalid as error:
                problems.append(RowProblem(sheet, number, error.message, code=error.code, **error.params))
                continue
            if new.surface in found:
                problems.append(
                    RowProblem(
                        sheet,
                        number,
                        gettext_noop("The same term stands in row %(other)s; that one is taken."),
                        code="row_repeated",
                        other=lines[new.surface],
                    )
                )
                continue
            found[new.surface], lines[new.surface] = new, number
    if not found and not problems:
        raise Invalid("The sheet holds no terms.", code="columns_missing")
    return TermSheet(tuple(found.values()), tuple(problems))


def _columns(cells: Sequence[str]) -> dict[int, str]:
    """What each column holds; empty when the row is no head."""
    kinds = (("synonyms", _SYNONYMS), ("weight", _WEIGHT), ("term", _TERM))
    found: dict[int, str] = {}
    for place, cell in enumerate(cells):
        title = " ".join(cell.casefold().split())
        kind = next((kind for kind, looks in kinds if looks.fullmatch(title)), None)
        if kind is not None:
            found[place] = kind
    return found if "term" in found.values() else {}


def _row(cells: Sequence[str], columns: dict[int, str]) -> Wanted:
    columns = columns or {place: "term" if place == 0 else "synonyms" for place in range(len(cells))}
    named: dict[str, list[str]] = {}
    for place, kind in columns.items():
        if place < len(cells) and cells[place].strip():
            named.setdefault(kind, []).append(typed(cells[place].strip()))
    raw = (named.get("weight") or ["1"])[0].replace(",", ".")
    try:
        weight = float(raw)
    except ValueError:
        weight = float("nan")
    synonyms = [part for cell in named.get("synonyms", []) for part in cut(cell)]
    return wanted((named.get("term") or [""])[0], synonyms, weight)


def cut(cell: str) -> list[str]:
    """Several words in one field."""
    return [part.strip() for part in _ENDS.split(cell.replace("\r", "")) if part.strip()]


def as_csv(terms: Iterable[Term]) -> str:
    """The terms of a base as a sheet that `read_sheet` takes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["term", "synonyms", "weight"])
    for term in terms:
        writer.writerow([inert(term.text), inert("; ".join(term.synonyms)), f"{term.weight:g}"])
    return out.getvalue()
