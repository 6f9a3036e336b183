"""What a PDF becomes, and when it is refused."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.parsers.pdf import parse
from portal.kernel.errors import ParseError
from tests.support.pdf_files import Mark, Page, Placed, lines, pdf, text, to_unicode_map


def read(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> ParsedDocument:
    path = tmp_path / "given.pdf"
    path.write_bytes(data)
    return parse(Source(path, "given.pdf", "application/pdf"), context or ParseContext())


def refusal(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> str:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, data, context)
    return caught.value.code


def encrypted(user: str, owner: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption(user, owner, strength=128))
    canvas.drawString(72, 700, "Only the owner has a password")
    canvas.save()
    return buffer.getvalue()


def test_a_file_of_zero_bytes_is_refused_as_empty(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"") == "empty_file"


def test_a_pdf_without_pages_is_refused_as_damaged(tmp_path: Path) -> None:
    assert refusal(tmp_path, pdf([])) == "damaged_file"


@pytest.mark.parametrize("data", [b"MZ\x90\x00 a program", b"PK\x03\x04 an archive", b"just words"])
def test_bytes_that_are_no_pdf_are_refused(tmp_path: Path, data: bytes) -> None:
    assert refusal(tmp_path, data) == "not_a_pdf"


def test_a_pdf_cut_off_in_the_middle_is_read_or_refused_but_never_comes_out_empty(tmp_path: Path) -> None:
    whole = pdf([text(72, 700, "Cut off")])
    assert refusal(tmp_path, whole[: len(whole) // 4]) in {"damaged_file", "no_text"}


def test_an_owner_password_alone_does_not_keep_anyone_from_reading(tmp_path: Path) -> None:
    assert read(tmp_path, encrypted("", "secret")).text == "Only the owner has a password"


def test_a_user_password_is_refused_as_password_protected(tmp_path: Path) -> None:
    assert refusal(tmp_path, encrypted("user", "secret")) == "password_protected"


def test_a_damaged_file_after_a_protected_one_is_not_called_protected(tmp_path: Path) -> None:
    assert refusal(tmp_path, encrypted("user", "secret")) == "password_protected"
    assert refusal(tmp_path, pdf([])) == "damaged_file"


def test_an_image_only_pdf_has_no_text(tmp_path: Path) -> None:
    assert refusal(tmp_path, pdf([Page("", image=True)])) == "no_text"


def test_a_picture_with_nothing_but_a_note_still_counts_as_a_page_without_text(tmp_path: Path) -> None:
    scan = Page("", image=True, notes=[Placed("check this scan")])
    parsed = read(tmp_path, pdf([scan, text(72, 700, "Words")]))
    assert "check this scan" in parsed.text
    assert parsed.warnings == ("pages_without_text: no text layer on page 1 (images only).",)


def test_pages_that_are_pictures_among_pages_of_text_are_named_in_a_warning(tmp_path: Path) -> None:
    pages = [Page("", image=True), Page("", image=True), Page(text(72, 700, "Words on page three"), image=True)]
    parsed = read(tmp_path, pdf(pages))
    assert parsed.text == "Words on page three"
    assert [block.page for block in parsed.blocks] == [3]
    assert parsed.warnings == ("pages_without_text: no text layer on page 1-2 (images only).",)


def test_junk_before_the_header_and_a_wrong_start_offset_are_mended(tmp_path: Path) -> None:
    data = pdf([text(72, 700, "Still readable")])
    far = b"\x00junk\n" * 400 + data
    assert read(tmp_path, far).text == "Still readable"
    assert read(tmp_path, data.replace(b"%PDF-1.7\n", b"")).text == "Still readable"
    at = data.rindex(b"startxref")
    assert read(tmp_path, data[:at] + b"startxref\n99999999\n%%EOF").text == "Still readable"


def test_a_page_tree_that_contains_itself_ends(tmp_path: Path) -> None:
    data = pdf([text(72, 700, "Round and round")])
    parsed = read(tmp_path, data.replace(b"/Count 1 >>", b"/Count 9 >>").replace(b"] /Count 9", b" 2 0 R] /Count 9"))
    assert parsed.text == "Round and round"
    assert any(warning.startswith("pages_unreadable: ") for warning in parsed.warnings)


def test_one_bad_page_does_not_lose_the_others(tmp_path: Path) -> None:
    data = pdf([text(72, 700, "First"), text(72, 700, "Second"), text(72, 700, "Third")])
    kids = data[data.index(b"/Kids [") :]
    second = kids[: kids.index(b"]")].split(b" 0 R")[1].strip()
    parsed = read(tmp_path, data.replace(b" " + second + b" 0 R ", b" 999 0 R ", 1))
    assert parsed.text.startswith("First") and parsed.text.endswith("Third")
    assert any("page 2 " in warning for warning in parsed.warnings)


def test_more_pages_or_text_than_allowed_are_refused(tmp_path: Path) -> None:
    data = pdf([text(72, 700, "a page of words")] * 3)
    assert refusal(tmp_path, data, ParseContext(max_pages=2)) == "too_many_pages"
    assert refusal(tmp_path, data, ParseContext(max_text=20)) == "too_much_text"


def test_progress_is_reported_page_by_page(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    read(
        tmp_path,
        pdf([text(72, 700, "x y z")] * 3),
        ParseContext(progress=lambda done, total: seen.append((done, total))),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_nul_and_lone_surrogates_never_reach_the_text(tmp_path: Path) -> None:
    mapping = to_unicode_map({0x41: "0000", 0x42: "d83d", 0x43: "0007", 0x44: "d83dde00", 0x45: "0045"})
    parsed = read(tmp_path, pdf([text(72, 700, "EAEBECEDE", font="F5")], to_unicode=mapping))
    assert parsed.text.encode("utf-8").decode("utf-8") == parsed.text
    assert "\x00" not in parsed.text and "\x07" not in parsed.text
    assert parsed.text.replace("\ufffd", "").replace(" ", "") == "EEEE\U0001f600E"
    assert parsed.warnings[0].startswith("characters_removed: 3 ")


def test_titles_with_lone_surrogates_and_nul_are_mended(tmp_path: Path) -> None:
    data = pdf([text(72, 700, "Words.")], [Mark("Part\ud83d one", 1)], title="Deep\x00 \udc00sea")
    parsed = read(tmp_path, data)
    assert parsed.blocks[0].heading_path == ("Part\ufffd one",)
    assert parsed.title == "Deep \ufffdsea"


def test_a_letter_outside_the_basic_plane_comes_out_whole(tmp_path: Path) -> None:
    mapping = to_unicode_map({0x41: "d840dc0b"})
    assert read(tmp_path, pdf([text(72, 700, "AB", font="F5")], to_unicode=mapping)).text == "\U0002000bB"


def test_a_soft_hyphen_at_the_end_of_a_line_joins_its_word(tmp_path: Path) -> None:
    mapping = to_unicode_map({0x2D: "00ad"})
    words = text(72, 700, "The yearly main-", font="F5") + text(72, 686, "tenance", font="F5")
    assert read(tmp_path, pdf([words], to_unicode=mapping)).text == "The yearly maintenance"


def test_glyphs_drawn_twice_for_boldness_are_read_once(tmp_path: Path) -> None:
    twice = text(72, 650, "Balloon label") + text(72.4, 650, "Balloon label")
    assert read(tmp_path, pdf([twice])).text == "Balloon label"


def test_chinese_without_an_embedded_font_is_read(tmp_path: Path) -> None:
    parsed = read(
        tmp_path, pdf([lines(72, 700, ["差旅费应在返回后十五个工作日内提交，", "单笔超过五千元须部门经理审批。"])])
    )
    assert parsed.text == "差旅费应在返回后十五个工作日内提交，单笔超过五千元须部门经理审批。"


def test_form_fields_and_text_boxes_are_read_and_notes_are_marked(tmp_path: Path) -> None:
    page = Page(
        text(72, 700, "Name:"),
        fields=[Placed("Ada Lovelace", (120, 690, 320, 712))],
        free_text=[Placed("typed on top", (72, 500, 272, 520))],
        notes=[Placed("please check", (400, 690, 420, 710))],
    )
    parsed = read(tmp_path, pdf([page]))
    assert "Ada Lovelace" in parsed.text and "typed on top" in parsed.text
    assert [(block.kind, block.text) for block in parsed.blocks][-1] == ("note", "please check")


def test_blocks_know_their_page_and_place_from_the_top_left(tmp_path: Path) -> None:
    parsed = read(tmp_path, pdf([text(72, 742, "Page one"), text(100, 42, "Page two")]))
    first, second = parsed.blocks
    assert (first.page, second.page) == (1, 2)
    assert first.bbox is not None and second.bbox is not None
    assert first.bbox[0] == pytest.approx(72, abs=1) and 85 < first.bbox[1] < 100 < first.bbox[3] < 108
    assert second.bbox[0] == pytest.approx(100, abs=1) and 785 < second.bbox[1] < 800
    assert parsed.text[second.start : second.end] == "Page two"


def test_a_rotated_page_is_placed_as_displayed(tmp_path: Path) -> None:
    turned = Page("q 0 1 -1 0 200 100 cm " + text(0, 0, "Sideways words") + "Q\n", rotate=90)
    (block,) = read(tmp_path, pdf([turned])).blocks
    assert block.text == "Sideways words"
    assert block.bbox is not None
    left, top, right, bottom = block.bbox
    assert left == pytest.approx(100, abs=1) and right - left > 50 and 185 < top < 195 and 200 < bottom < 205


def test_a_bookmark_on_the_last_page_alone_keeps_the_pages_before_it(tmp_path: Path) -> None:
    pages = [text(72, 700, f"Body of page number {name}.") for name in ("one", "two", "three", "four")]
    parsed = read(
        tmp_path, pdf([*pages, text(72, 700, "Appendix") + text(72, 660, "Last words.")], [Mark("Appendix", 5, 130)])
    )
    assert [block.page for block in parsed.blocks] == [1, 2, 3, 4, 5, 5]
    assert [block.heading_path for block in parsed.blocks] == [()] * 5 + [("Appendix",)]


def test_a_garbled_text_layer_is_not_indexed(tmp_path: Path) -> None:
    mapping = to_unicode_map({code: f"{0xE000 + code:04x}" for code in range(0x41, 0x5B)})
    rubbish = lines(72, 700, ["ABCDEFGHIJKLMNOPQRSTUVWXYZ"] * 3, font="F5")
    assert refusal(tmp_path, pdf([rubbish], to_unicode=mapping)) == "no_text"


def test_a_space_after_letters_that_lean_is_kept(tmp_path: Path) -> None:
    lean = "BT /F1 12 Tf 1 0 0.25 1 72 700 Tm (italic) Tj ET\n"
    assert read(tmp_path, pdf([lean + text(99.4, 700, "words", 12)])).text == "italic words"


@pytest.mark.parametrize(
    "drawn",
    [
        "BT /F5 12 Tf 1 0 0 1 200 700 Tm (a) Tj -6 0 Td (b) Tj -6 0 Td (c) Tj ET\n",
        "BT /F5 12 Tf 1 0 0 1 188 700 Tm (c) Tj 6 0 Td (b) Tj 6 0 Td (a) Tj ET\n",
        "BT /F5 12 Tf 1 0 0 1 200 700 Tm [(a) 1056 (b) 1056 (c)] TJ ET\n",
        "BT /F5 12 Tf 1 0 0 1 188 700 Tm (cba) Tj ET\n",
    ],
)
def test_arabic_reads_from_right_to_left_in_whatever_order_its_letters_are_drawn(tmp_path: Path, drawn: str) -> None:
    mapping = to_unicode_map({0x61: "0645", 0x62: "0631", 0x63: "062d"})
    assert read(tmp_path, pdf([drawn], to_unicode=mapping)).text == "\u0645\u0631\u062d"


def test_form_fields_and_text_boxes_without_a_drawing_are_read_behind_their_labels(tmp_path: Path) -> None:
    widget = b"<</Type/Annot/Subtype/Widget/P 3 0 R/DA(/F1 11 Tf 0 g)"
    content = b"BT /F1 11 Tf 72 700 Td (Name:) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R 7 0 R]/NeedAppearances true>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R"
        b"/Annots[6 0 R 7 0 R 8 0 R]>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        widget + b"/FT/Tx/T(name)/V(Wang Fang)/Rect[120 695 300 712]>>",
        widget + b"/FT/Ch/Ff 131072/T(city)/V(Beijing)/Opt[(Beijing)(Shanghai)]/Rect[120 665 300 682]>>",
        b"<</Type/Annot/Subtype/FreeText/Contents(a text box)/Rect[72 600 300 620]/DA(/F1 11 Tf 0 g)>>",
    ]
    data = b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % pair for pair in enumerate(objects, start=1))
    found = read(tmp_path, data + b"trailer<</Size 9/Root 1 0 R>>\n%%EOF")
    assert [block.text for block in found.blocks] == ["Name:", "Name: Wang Fang", "Beijing", "a text box"]
    assert found.blocks[1].bbox is not None


def test_attached_files_are_named_and_hidden_notes_left_out(tmp_path: Path) -> None:
    notes = [Placed("seen"), Placed("hidden", flags=2)]
    found = read(tmp_path, pdf([Page(text(72, 700, "Body"), notes=notes)], attached="报告.xlsx"))
    assert found.text == "Body\n\nseen"
    assert found.warnings == ("embedded_document: The attached file 报告.xlsx was left out.",)
