"""Faults that well-known products had with files, each with a tiny input of its own, from the upload to the chunks.

The parsers' own tests look closer; here a file goes the whole way: intake, child process, splitting, storage.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from knowledge import lifecycle
from knowledge.models import Chunk, Document, Revision
from portal.kernel.errors import ArchwayError, ParseError
from tests.support import office_files as office
from tests.support.pdf_files import Mark, pdf, text, to_unicode_map
from tests.support.people import World, indexed, put, work_through

FENCE = "```"


@dataclass(frozen=True)
class Case:
    """A file, what its chunks must hold, what they must not, and how many there are (None: any number)."""

    fault: str
    name: str
    data: bytes | str
    holds: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    chunks: int | None = None


def owner_password() -> bytes:
    data = io.BytesIO()
    canvas = Canvas(data, encrypt=StandardEncryption("", "secret", canPrint=0))
    canvas.drawString(72, 700, "Readable without a password")
    canvas.save()
    return data.getvalue()


def zip_with_gbk_name() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("AAAAAAAA.md", "# T\n\nwords inside")
    return data.getvalue().replace(b"AAAAAAAA", "员工手册".encode("gbk"))


def cells(*values: str) -> str:
    return '<row r="2">' + "".join(values) + "</row>"


def heading_style() -> bytes:
    styles = office.style("H", "Heading") + office.style("N", "Normal")
    return office.word_file(
        office.paragraph("Introduction", '<w:pStyle w:val="H"/>') + office.paragraph("Words."), styles=styles
    )


def phantom_range() -> bytes:
    rows = '<row r="1"><c r="A1" t="inlineStr"><is><t>near</t></is></c></row>'
    rows += '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row>'
    sheet = office.worksheet(rows).replace("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>')
    return office.workbook({"S": sheet})


def falsy_cells() -> bytes:
    head = office.text_rows([["zero", "no", "share"]])
    values = cells('<c r="A2"><v>0</v></c>', '<c r="B2" t="b"><v>0</v></c>', '<c r="C2" s="1"><v>0</v></c>')
    return office.workbook({"S": head + values}, styles=office.cell_styles("0.00%"))


def bookmark_on_the_last_page() -> bytes:
    pages = [text(72, 700, f"Words of page {number}") for number in range(1, 6)]
    return pdf(pages, [Mark("Appendix", 5)])


ROWS = "".join(f"| {number} | value {number} |\n" for number in range(1, 301))
CASES = [
    Case("nul_in_text", "a.txt", b"Leave\x00 is fifteen days.", ("Leave is fifteen days.",), ("\x00",)),
    Case("surrogate_in_json", "a.json", b'{"a": "\\ud83d", "b": "\\u0000kept"}', ("\ufffd", "kept")),
    Case(
        "nul_and_surrogate_in_pdf",
        "a.pdf",
        pdf([text(72, 700, "EAEBE words", font="F5")], to_unicode=to_unicode_map({0x41: "0000", 0x42: "d83d"})),
        ("words",),
        ("\x00", "\ud83d"),
    ),
    Case(
        "paragraphs_of_crlf", "a.txt", "First part.\r\n\r\n\r\nSecond part.", ("First part.", "Second part."), ("\r",)
    ),
    Case("sixty_kilobytes_on_one_line", "a.txt", "无标点的长行" * 3_400, ("无标点的长行",)),
    Case(
        "title_that_recurs",
        "a.md",
        "# Leave\n\nLeave is granted.\n\n## Leave\n\nSick leave.",
        ("Leave is granted.", "Sick leave."),
    ),
    Case(
        "comment_in_a_fence",
        "a.md",
        f"{FENCE}bash\n# not a title\nls\n{FENCE}\n",
        (f"{FENCE}bash\n# not a title\nls\n{FENCE}",),
        chunks=1,
    ),
    Case("table_of_300_rows", "a.md", f"| key | text |\n|---|---|\n{ROWS}", ("| 300 | value 300 |",)),
    Case("json_42", "a.json", "42", ("42",), chunks=1),
    Case("quoted_newlines", "a.csv", 'q,a\n"Two\nlines, one cell",yes\n', ("| Two lines, one cell | yes |",)),
    Case("field_of_200_kilobytes", "a.csv", f"id,text\n1,{'x' * 200_000}\n2,the end\n", ("the end",)),
    Case("semicolons", "a.csv", "Name;Price\nPen;1,50\n", ("| Name | Price |", "| Pen | 1,50 |")),
    Case("tabs", "a.csv", "Name\tPrice\nPen\t1,50\n", ("| Name | Price |", "| Pen | 1,50 |")),
    Case("phantom_used_range", "a.xlsx", phantom_range(), ("near", "far")),
    Case("falsy_cells", "a.xlsx", falsy_cells(), ("| 0 | FALSE | 0.00% |",)),
    Case(
        "number_like_text",
        "a.csv",
        "id,card,phone\n007,110101199003078888,+86 138 0013 8000\n",
        ("| 007 | 110101199003078888 | +86 138 0013 8000 |",),
    ),
    Case("style_named_heading", "a.docx", heading_style(), ("Words.",)),
    Case("owner_password", "a.pdf", owner_password(), ("Readable without a password",)),
    Case(
        "bookmark_on_the_last_page",
        "a.pdf",
        bookmark_on_the_last_page(),
        tuple(f"Words of page {number}" for number in range(1, 6)),
    ),
    Case(
        "text_before_the_first_block",
        "a.html",
        "Loose words<p>A paragraph</p>tail",
        ("Loose words", "A paragraph", "tail"),
    ),
    Case(
        "gbk_that_declares_gb2312",
        "a.html",
        "<html><head><meta charset=gb2312></head><body>朱镕基 喆 €</body></html>".encode("gbk", "replace"),
        ("朱镕基 喆",),
    ),
    Case("names_in_gbk", "a.zip", zip_with_gbk_name(), ("words inside",)),
]


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
@pytest.mark.django_db
def test_a_file_that_others_stumble_over_is_searchable_with_all_it_says(world: World, case: Case) -> None:
    document = indexed(world.principal(world.alice), world.base, case.name, case.data)
    assert document.active_revision is not None
    chunks = list(Chunk.objects.filter(revision=document.active_revision, level=Chunk.Level.LEAF).order_by("ordinal"))
    whole = "\n".join(chunk.text for chunk in chunks)
    assert [part for part in case.holds if part not in whole] == []
    assert [part for part in case.lacks if part in whole] == []
    assert case.chunks in (None, len(chunks))


def test_heading_paths_of_recurring_titles_tell_where_a_chunk_stands(world: World) -> None:
    data = "# A\n\nfoo\n\n## foo\n\nbar\n\n# B\n\n## foo\n\nbaz and foo\n"
    document = indexed(world.principal(world.alice), world.base, "a.md", data)
    paths = {
        word: list(chunk.heading_path)
        for chunk in Chunk.objects.filter(revision=document.active_revision, level=Chunk.Level.LEAF)
        for word in ("bar", "baz")
        if word in chunk.text
    }
    assert paths in ({"bar": ["A", "foo"], "baz": ["B", "foo"]}, {"bar": [], "baz": []})


def test_every_part_of_a_long_table_begins_with_its_head(world: World) -> None:
    document = indexed(world.principal(world.alice), world.base, "a.md", f"| key | text |\n|---|---|\n{ROWS}")
    chunks = Chunk.objects.filter(revision=document.active_revision, level=Chunk.Level.LEAF)
    assert chunks.count() > 1
    assert all(chunk.text.lstrip().startswith("| key | text |\n|---|---|\n| ") for chunk in chunks)


def test_the_name_in_gbk_heads_what_stands_under_it(world: World) -> None:
    document = indexed(world.principal(world.alice), world.base, "a.zip", zip_with_gbk_name())
    chunk = Chunk.objects.get(revision=document.active_revision, level=Chunk.Level.LEAF)
    assert "员工手册.md" in [*chunk.heading_path, *chunk.text.split("\n")]


NAMES = [
    ("nul\x00inside.txt", "nulinside.txt"),
    ("half \ud83d pair.txt", "half  pair.txt"),
    ("emoji 😀 文件.txt", "emoji 😀 文件.txt"),
    ("invoice\u202etxt.md", "invoicetxt.md"),
]


@pytest.mark.parametrize(("given", "shown"), NAMES, ids=[ascii(given) for given, _ in NAMES])
def test_any_name_can_be_stored_and_shows_what_it_is(world: World, given: str, shown: str) -> None:
    document = indexed(world.principal(world.alice), world.base, given, "Some words.")
    assert Document.objects.get(pk=document.pk).name == shown


def test_an_error_that_quotes_unstorable_characters_is_stored_and_told(world: World) -> None:
    revision = put(world.principal(world.alice), world.base, "a.txt", "Some words.").revision
    assert revision is not None
    claim = lifecycle.claim("test", revision.pk)
    assert claim is not None
    lifecycle.fail(claim, ParseError("No \x00 \ud83d sheet %(name)s.", code="damaged_file", name="a\x00\udc00b"))
    row = Revision.objects.get(pk=revision.pk)
    assert row.status == Revision.Status.FAILED
    shown = row.error_message % row.error_params
    assert "\x00" not in shown
    assert shown.encode().decode() == shown


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(ArchwayError) as caught:
        act()
    return caught.value.code


def test_an_empty_file_is_refused_and_blank_ones_end_as_without_text(world: World) -> None:
    alice = world.principal(world.alice)
    assert refusal(lambda: put(alice, world.base, "a.pdf", b"")) == "empty_file"
    for number, (name, data) in enumerate([("a.md", " \r\n\t"), ("a.json", "null"), ("a.csv", ",,\r\n,,\r\n")]):
        revision = work_through(put(alice, world.base, f"{number}{name}", data).revision)
        assert revision.status == Revision.Status.NO_TEXT
        assert revision.error_code == "no_text"


def test_a_protected_file_ends_with_its_reason_and_is_not_tried_again(world: World) -> None:
    data = io.BytesIO()
    canvas = Canvas(data, encrypt=StandardEncryption("user", "secret"))
    canvas.drawString(72, 700, "Hidden")
    canvas.save()
    revision = work_through(put(world.principal(world.alice), world.base, "a.pdf", data.getvalue()).revision)
    assert (revision.status, revision.error_code, revision.attempts) == (
        Revision.Status.FAILED,
        "password_protected",
        1,
    )
