"""Sheets of questions and pasted texts: what is taken, what is wrong with the rest, and what becomes of it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge import lifecycle
from knowledge.models import Chunk, ChunkQuestion, Document, Upload
from knowledge.questions import embedding, verbs
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest
from knowledge.sources import pasted, question_sheets, template_sheet
from knowledge.sources.question_sheets import judge
from portal.kernel import keys
from portal.kernel.errors import ArchwayError, Conflict, Invalid, ParseError
from tests.support.people import World, put, work_through


def sheet(*rows: tuple[str, ...]) -> question_sheets.QuestionSheet:
    return judge([("", number, list(cells)) for number, cells in enumerate(rows, start=1)])


def told(found: question_sheets.QuestionSheet) -> list[tuple[int, str]]:
    return [(problem.row, problem.code) for problem in found.problems]


def client_of(world: World) -> Client:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:read", "kb:write"])
    return Client(headers={"X-API-Key": secret})


@pytest.mark.parametrize(
    "head",
    [
        ("问题", "答案"),
        ("标准问题*", "答案（必填）"),
        ("Question", "Answer"),
        ("QUESTIONS:", "Answers"),
        ("序号", "提问", "备注", "回答"),
        ("Answer", "Question"),
    ],
)
def test_columns_are_found_by_their_titles_in_both_languages(head: tuple[str, ...]) -> None:
    cells = ["x"] * len(head)
    found = sheet(("Questions of people", ""), head, (*cells[:-1], "y"))
    assert len(found.pairs) == 1 and not found.problems


def test_a_sheet_without_these_columns_is_refused_with_the_way_out() -> None:
    with pytest.raises(Invalid, match="template") as refused:
        sheet(("Name", "Price"), ("pump", "100"))
    assert refused.value.code == "columns_missing"


def test_each_bad_row_is_told_by_its_number_and_the_good_ones_are_taken() -> None:
    found = sheet(
        ("Question", "Answer"),
        ("How?", "So."),
        ("", "An answer to nothing"),
        ("Why?", "   "),
        ("how ?", "So."),
        ("HOW", "Otherwise."),
        ("x" * 1001, "y"),
        ("When?", "Now."),
    )
    assert [pair.row for pair in found.pairs] == [2, 8]
    assert told(found) == [
        (3, "question_missing"),
        (4, "answer_missing"),
        (5, "row_repeated"),
        (6, "question_repeated"),
        (7, "cell_too_long"),
    ]
    assert "Row 2" in found.problems[3].sentence()


def test_other_ways_to_ask_and_tags_come_along() -> None:
    found = sheet(
        ("问题", "答案", "相似问题", "相似问题2", "标签"),
        ("年假几天？", "25 天", "假期多长；放几天假\n年假几天？", "几天", "人事，合同"),
    )
    assert found.pairs[0].questions == ("年假几天？", "假期多长", "放几天假", "几天")
    assert found.pairs[0].tags == ("人事", "合同")


def test_each_row_becomes_one_chunk_with_its_lines_and_other_questions(world: World, tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    path.write_text(
        'Question,Answer,Similar questions,Tags\n"How many days?","Twenty-five.\nMore for parents, a|b.",'
        '"How long?",leave\n'
        "Where to report?,At the desk.,,\n",
        encoding="gb18030",
    )
    found = question_sheets.read_sheet(path, "faq.csv")
    received = question_sheets.import_sheet(world.principal(world.alice), world.base, found, "faq.csv", folder="qa")
    revision = work_through(received.revision)
    assert revision.status == "indexed" and revision.own_splitting
    texts = list(
        Chunk.objects.filter(revision=revision, level="leaf").order_by("ordinal").values_list("text", flat=True)
    )
    assert texts == [
        "How many days?\nTwenty-five.\nMore for parents, a|b.\nTags: leave",
        "Where to report?\nAt the desk.",
    ]
    assert (received.document.folder, received.document.name) == ("qa", "faq.csv")


HEADS = [
    ("Question", "Answer", "Similar questions"),
    ("问题", "答案", "相似问题"),
    ("标准问", "回答", "扩展问法"),
]


def asked_of(document: Document) -> set[tuple[str, str, bool]]:
    document.refresh_from_db()
    rows = ChunkQuestion.objects.filter(revision=document.active_revision).select_related("chunk")
    return {(row.text, row.chunk.text.split("\n")[0], row.enabled) for row in rows}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_other_ways_to_ask_lead_to_the_row_and_follow_the_sheet(
    world: World, tmp_path: Path, head: tuple[str, ...], form: str
) -> None:
    alice = world.principal(world.alice)

    def imported(similar: str) -> Document:
        rows = [head, ("年假几天", "二十五天", similar), ("Where to report?", "At the desk.", "")]
        path = tmp_path / f"faq.{form}"
        if form == "csv":
            path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows), encoding="gb18030")
        else:
            book = openpyxl.Workbook()
            for row in rows:
                book.active.append(row)
            book.save(path)
        found = question_sheets.read_sheet(path, path.name)
        received = question_sheets.import_sheet(alice, world.base, found, path.name)
        assert work_through(received.revision).status == "indexed"
        return received.document

    document = imported("How long is the holiday?\n放几天假")
    both = {("How long is the holiday?", "年假几天", True), ("放几天假", "年假几天", True)}
    assert asked_of(document) == both
    embedding.embed_missing()
    for mode in ("keywords", "embedding", "blend"):
        request = RetrievalRequest("How long is the holiday?", base_uids=(world.base.uid,), mode=mode)
        assert "二十五天" in retrieve(alice, request).hits[0].text
    # Switched off here it stays off, and comes along when the same file is read again.
    verbs.set_enabled(alice, ChunkQuestion.objects.get(text="放几天假"), False)
    work_through(lifecycle.reindex(alice, document))
    assert asked_of(document) == {("How long is the holiday?", "年假几天", True), ("放几天假", "年假几天", False)}
    # What the sheet no longer says is gone, and what it says anew is there.
    imported("放几天假\nHow many days off?")
    assert asked_of(document) == {("How many days off?", "年假几天", True), ("放几天假", "年假几天", False)}


def test_a_similar_question_of_two_rows_stays_with_the_first_and_is_told() -> None:
    found = sheet(
        ("Question", "Answer", "Similar questions"),
        ("A?", "1", "B?;C?"),
        ("D?", "2", "c;E?;" + "x" * 501),
        ("b", "3", ""),
    )
    assert [pair.questions for pair in found.pairs] == [("A?", "B?", "C?"), ("D?", "E?")]
    assert told(found) == [(3, "similar_repeated"), (3, "similar_too_long"), (4, "question_repeated")]


def test_the_templates_are_read_back_as_they_were_made(tmp_path: Path) -> None:
    for name, data in (("t.csv", template_sheet.as_csv()), ("t.xlsx", template_sheet.as_workbook())):
        path = tmp_path / name
        path.write_bytes(data)
        found = question_sheets.read_sheet(path, name)
        assert [len(pair.questions) for pair in found.pairs] == [3, 1] and not found.problems


def test_the_workbook_of_the_template_opens_in_another_reader() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(template_sheet.as_workbook()))
    assert [cell.value for cell in book.active[1]] == template_sheet.rows()[0]


def test_rows_of_every_sheet_of_a_workbook_count(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "General"
    book.active.append(["Question", "Answer"])
    book.active.append(["How?", "So.\nAnd so."])
    other = book.create_sheet("IT")
    other.append(["问题", "答案"])
    other.append(["谁？", ""])
    book.create_sheet("Notes").append(["nothing", "of", "this"])
    path = tmp_path / "q.xlsx"
    book.save(path)
    found = question_sheets.read_sheet(path, "q.xlsx")
    assert [(pair.sheet, pair.row, pair.answer) for pair in found.pairs] == [("General", 2, "So.\nAnd so.")]
    assert [(problem.sheet, problem.row) for problem in found.problems] == [("IT", 2)]


def test_other_files_are_no_sheets(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.4\n1 0 obj\n")
    with pytest.raises(Invalid) as refused:
        question_sheets.read_sheet(path, "a.pdf")
    assert refused.value.code == "not_a_sheet"
    path = tmp_path / "a.csv"
    path.write_bytes(b"Question,Answer\n" + b"q,a\n" * 20_001)
    with pytest.raises(ParseError) as large:
        question_sheets.read_sheet(path, "a.csv")
    assert large.value.code == "too_many_rows"


def test_the_api_previews_without_keeping_anything_and_then_imports(world: World) -> None:
    client, url = client_of(world), f"/api/v1/bases/{world.base.uid}/question-sheets"
    data = "Question,Answer\nHow?,So.\nWhy?,\n"

    def send(**more: Any) -> Any:
        return client.post(url, {"file": SimpleUploadedFile("faq.csv", data.encode()), **more})

    preview = send(preview="true")
    assert preview.status_code == 200
    assert preview.json()["pairs"] == 1
    assert [(row["row"], row["code"]) for row in preview.json()["problems"]] == [(3, "answer_missing")]
    assert not Document.objects.exists() and not Upload.objects.exists()
    made = send()
    assert made.status_code == 201 and made.json()["document"]["name"] == "faq.csv"
    for kind in ("csv", "xlsx"):
        template = client.get(f"/api/v1/question-sheet-template?type={kind}")
        assert template.status_code == 200 and f"questions.{kind}" in template.headers["Content-Disposition"]


# -- pasted text --


def test_a_title_and_a_text_become_a_document_and_again_a_revision(world: World) -> None:
    client, url = client_of(world), f"/api/v1/bases/{world.base.uid}/texts"
    body = {"title": "Leave rules / 2026", "text": "# Leave\n\nTwenty days.", "folder": "hr"}
    made = client.post(url, body, content_type="application/json")
    assert made.status_code == 201 and made.json()["status"] == "created"
    document = Document.objects.get()
    assert (document.folder, document.name) == ("hr", "Leave rules ∕ 2026.md")
    revision = work_through(document.revisions.get())
    assert revision.mime == "text/markdown" and revision.status == "indexed"
    again = client.post(url, {**body, "text": "# Leave\n\nTwenty-five days."}, content_type="application/json")
    assert again.json()["status"] == "revision" and again.json()["revision"]["number"] == 2
    plain = client.post(url, {**body, "format": "plain", "text": "just words"}, content_type="application/json")
    assert plain.json()["document"]["name"] == "Leave rules ∕ 2026.txt"


@pytest.mark.parametrize(
    ("title", "text", "code"),
    [
        (" ", "x", "title_missing"),
        ("../..", "x", "title_missing"),
        ("t", " \n ", "text_empty"),
        ("t", "x" * 500_001, "text_too_long"),
    ],
)
def test_what_is_no_text_is_refused_in_one_sentence(world: World, title: str, text: str, code: str) -> None:
    with pytest.raises(ArchwayError) as refused:
        pasted.paste(world.principal(world.alice), world.base, title=title, text=text)
    assert refused.value.code == code
    assert not Document.objects.exists()


def test_editing_makes_the_next_revision_unless_somebody_was_quicker(world: World) -> None:
    alice = world.principal(world.alice)
    document = pasted.paste(alice, world.base, title="Leave", text="Twenty days.").document
    work_through(document.revisions.get())
    now = pasted.editable(document)
    assert now is not None and (now.title, now.text, now.kind, now.number) == ("Leave", "Twenty days.", "markdown", 1)
    work_through(pasted.edit(alice, document, "Thirty days.", number=1).revision)
    with pytest.raises(Conflict) as late:
        pasted.edit(alice, document, "Forty days.", number=1)
    assert late.value.code == "text_changed"
    assert document.revisions.count() == 2


def test_files_that_are_no_text_are_not_edited(world: World) -> None:
    alice = world.principal(world.alice)
    table = put(alice, world.base, "a.csv", "a,b\n1,2\n").document
    assert pasted.editable(table) is None
    with pytest.raises(Invalid):
        pasted.edit(alice, table, "x", number=1)
    legacy = put(alice, world.base, "old.txt", "一个很长的中文句子，用旧的编码写成。".encode("gb18030")).document
    assert pasted.editable(legacy) is None
