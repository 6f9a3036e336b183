"""The sample company's files say what the questions ask, and nobody is granted more than the tour tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import pypdfium2
import pytest
from docx import Document
from openpyxl import load_workbook
from pptx import Presentation

from sample.make import FILES, HERE, MADE, make

WORKSPACE: dict[str, Any] = json.loads((HERE / "workspace.json").read_text(encoding="utf-8"))
QUESTIONS: list[dict[str, str]] = json.loads((HERE / "questions.json").read_text(encoding="utf-8"))
DOCUMENTS: dict[str, dict[str, str]] = {
    document["file"]: document for base in WORKSPACE["bases"] for document in base["documents"]
}
ROLES = ("viewer", "editor", "owner")


def _without_space(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _pdf_text(path: Path) -> Iterator[str]:
    with pypdfium2.PdfDocument(path) as document:
        for page in document:
            yield page.get_textpage().get_text_range()


def _word_text(path: Path) -> Iterator[str]:
    document = Document(str(path))
    yield from (paragraph.text for paragraph in document.paragraphs)
    for table in document.tables:
        yield from (cell.text for row in table.rows for cell in row.cells)
    if "word/footnotes.xml" in ZipFile(path).namelist():
        yield re.sub(r"<[^>]+>", "", ZipFile(path).read("word/footnotes.xml").decode())


def _workbook_text(path: Path) -> Iterator[str]:
    for sheet in load_workbook(path).worksheets:
        yield from (str(cell) for row in sheet.iter_rows(values_only=True) for cell in row)


def _deck_text(path: Path) -> Iterator[str]:
    for slide in Presentation(str(path)).slides:
        for shape in slide.shapes:
            if shape.has_table:
                yield from (cell.text for row in shape.table.rows for cell in row.cells)
            elif shape.has_text_frame:
                yield shape.text_frame.text
        yield slide.notes_slide.notes_text_frame.text


READERS = {".pdf": _pdf_text, ".docx": _word_text, ".xlsx": _workbook_text, ".pptx": _deck_text}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """File name → its whole text without white space."""
    return {
        path.name: _without_space(
            "\n".join(READERS[path.suffix](path)) if path.suffix in READERS else path.read_text(encoding="utf-8-sig")
        )
        for path in FILES.iterdir()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders, each with a fresh run of make."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    make(first)
    make(second)
    return first, second


def _members(data: bytes) -> dict[str, bytes]:
    """An Office file's entries; any other file as one. Compressed bytes may differ between zlib builds."""
    if not is_zipfile(BytesIO(data)):
        return {"": data}
    with ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _role(username: str, base: dict[str, Any]) -> str | None:
    """The highest role a person's own grants and those of their department and its ancestors give."""
    parents = {department["id"]: department["parent"] for department in WORKSPACE["departments"]}
    (person,) = (person for person in WORKSPACE["people"] if person["username"] == username)
    line: set[str] = set()
    step: str | None = person["department"]
    while step is not None:
        line.add(step)
        step = parents[step]
    roles = [
        grant["role"] for grant in base["grants"] if grant.get("user") == username or grant.get("department") in line
    ]
    return max(roles, key=ROLES.index, default=None)


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_committed_file_is_what_its_source_makes(name: str, made: tuple[Path, Path]) -> None:
    assert _members((made[0] / name).read_bytes()) == _members((FILES / name).read_bytes())


@pytest.mark.parametrize("name", sorted(MADE))
def test_making_a_file_twice_gives_the_same_bytes(name: str, made: tuple[Path, Path]) -> None:
    assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes()


def test_every_file_has_its_place_in_one_base() -> None:
    placed = [document["file"] for base in WORKSPACE["bases"] for document in base["documents"]]
    assert sorted(placed) == sorted(path.name for path in FILES.iterdir())


def test_the_files_stay_small_enough_to_commit() -> None:
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 600_000


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: entry["question"])
def test_a_question_has_its_answer_in_exactly_one_file(entry: dict[str, str], texts: dict[str, str]) -> None:
    snippet = _without_space(entry["snippet"])
    assert [name for name, text in texts.items() if snippet in text] == [entry["file"]]


@pytest.mark.parametrize("code", ["E-1024", "E-2001", "GW-1187", "X-Clearbrook-Signature", "0020004", "00734"])
def test_a_code_that_the_questions_ask_for_stands_in_one_file_only(code: str, texts: dict[str, str]) -> None:
    asked = [entry["file"] for entry in QUESTIONS if code in entry["question"]]
    assert [name for name, text in texts.items() if code in text] == asked


def test_the_questions_cover_every_file_both_languages_and_crossings_between_them() -> None:
    assert len(QUESTIONS) >= 30
    assert {entry["file"] for entry in QUESTIONS} == set(DOCUMENTS)
    asked = [(entry["lang"], DOCUMENTS[entry["file"]]["lang"]) for entry in QUESTIONS]
    assert min(asked.count(("en", "zh")), asked.count(("zh", "en"))) >= 4
    assert min(asked.count(("zh", "zh")), asked.count(("en", "en"))) >= 4


def test_names_that_the_workspace_refers_to_are_defined_before() -> None:
    seen: set[str] = set()
    for department in WORKSPACE["departments"]:
        assert department["parent"] is None or department["parent"] in seen
        seen.add(department["id"])
    usernames = {person["username"] for person in WORKSPACE["people"]}
    assert {person["department"] for person in WORKSPACE["people"]} <= seen
    for base in WORKSPACE["bases"]:
        for grant in base["grants"]:
            assert grant["role"] in ROLES
            assert (grant.get("user") in usernames) != (grant.get("department") in seen)


def test_the_grants_are_those_of_the_tour() -> None:
    public, private = WORKSPACE["bases"]
    roles = {name: (_role(name, public), _role(name, private)) for name in ("alice", "bob", "xujing", "mallory")}
    assert roles == {
        "alice": ("owner", "owner"),
        "bob": ("viewer", None),
        "xujing": ("viewer", "editor"),
        "mallory": (None, None),
    }
    assert (public["sensitive"], private["sensitive"]) == (False, True)


def test_the_manual_carries_a_footnote_and_numbers_that_word_itself_counts() -> None:
    with ZipFile(FILES / "TH-Series-Product-Manual.docx") as archive:
        assert b'w:footnoteReference w:id="1"' in archive.read("word/document.xml")
        assert b"warm-up time of ten minutes" in archive.read("word/footnotes.xml")
        assert archive.read("word/styles.xml").count(b"<w:numId ") >= 2


def test_the_handbook_has_bookmarks_for_its_chapters() -> None:
    with pypdfium2.PdfDocument(FILES / "员工手册.pdf") as document:
        assert 6 <= len(document) <= 8
        titles = [entry.get_title() for entry in document.get_toc()]
    assert "3.1 年休假" in titles


def test_part_numbers_keep_their_zeros_and_prices_dates_and_percentages_their_types() -> None:
    prices, discounts = load_workbook(FILES / "价格表-2026.xlsx").worksheets
    number, price, start = prices["A2"], prices["E2"], prices["H2"]
    assert (number.value, number.data_type) == ("0010417", "s")
    assert (price.data_type, start.is_date) == ("n", True)
    assert (discounts["C5"].value, discounts["C5"].number_format) == (0.125, "0.0%")


def test_every_mail_address_ends_in_example(texts: dict[str, str]) -> None:
    everything = " ".join(texts.values()) + (HERE / "workspace.json").read_text(encoding="utf-8")
    domains = set(re.findall(r"[a-z]@([a-z.]+[a-z])", everything))
    assert {domain for domain in domains if not domain.startswith("clearbrook.example")} == set()
