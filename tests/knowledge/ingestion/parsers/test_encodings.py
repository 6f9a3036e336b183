"""Bytes to text, by the samples that other products read wrongly."""

from __future__ import annotations

import pytest

from knowledge.ingestion.parsers.encodings import decode, known_codec, wide_encoding

CHINESE = "员工请假须提前三个工作日在系统中提交申请，由部门负责人审批后生效。年假可以分次使用，但每次不得少于半天。"
TRADITIONAL = "員工請假須提前三個工作日在系統中提交申請，由部門負責人審批後生效。年假可以分次使用，但每次不得少於半天。"
JAPANESE = (
    "休暇を取得する場合は、三営業日前までにシステムで申請し、部門の責任者の承認を受けてください。ソニー・能力表示。"
)
KOREAN = "휴가를 사용하려면 사흘 전까지 시스템에서 신청하고 부서 책임자의 승인을 받아야 합니다."
GERMAN = "Überprüfen Sie die Größe des Gehäuses, bevor Sie die Lösung bestätigen. Natürlich können Änderungen folgen."
RUSSIAN = "Материалы необходимо представить до конца недели. Продажи выросли по сравнению с прошлым годом."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "utf-8"),
        (CHINESE, "utf-8-sig"),
        (CHINESE, "gbk"),
        (CHINESE, "gb18030"),
        (CHINESE, "utf-16"),
        (CHINESE, "utf-16-le"),
        (CHINESE, "utf-16-be"),
        (CHINESE, "utf-32"),
        ("plain words", "utf-16-le"),
        ("plain words", "utf-32-be"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (JAPANESE, "iso2022_jp"),
        (KOREAN, "cp949"),
        (GERMAN, "cp1252"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
    ],
)
def test_text_is_read_in_the_encoding_it_was_written_in(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert decoded.text == text
    assert decoded.warnings == ()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("制度", "gbk"), ("员工手册", "gbk"), ("報銷制度", "big5"), ("申請書の様式", "cp932"), ("können", "latin-1")],
)
def test_a_few_characters_are_enough(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


def test_byte_order_mark_never_reaches_the_text() -> None:
    assert decode(b"\xef\xbb\xbfname,price").text == "name,price"
    assert decode("\ufeff\ufeffname".encode()).text == "name"


def test_one_stray_byte_in_utf8_is_replaced_and_its_place_named() -> None:
    decoded = decode("员工手册".encode() + b"\xff" + "第二章".encode())
    assert decoded.text == "员工手册\ufffd第二章"
    assert decoded.warnings == ("replaced_bytes: 1 places could not be read as utf-8, the first at byte 12.",)


def test_second_encoding_in_one_file_leaves_the_first_part_readable() -> None:
    decoded = decode("前半部分是UTF-8编码。\n".encode() + "后半部分是别的".encode("gbk"))
    assert decoded.text.startswith("前半部分是UTF-8编码。\n")
    assert decoded.warnings


def test_bytes_that_fit_nothing_give_text_and_a_warning() -> None:
    decoded = decode(b"ok\x80\x81bad")
    assert decoded.text.startswith("ok")
    assert decoded.text.endswith("bad")
    assert decoded.warnings


def test_utf16_cut_in_the_middle_of_a_character_keeps_the_rest() -> None:
    decoded = decode("制度".encode("utf-16") + b"\x41")
    assert decoded.text.startswith("制度")
    assert decoded.warnings


def test_every_kind_of_line_end_becomes_one() -> None:
    assert decode("a\r\nb\rc\u2028d\u0085e\n".encode()).text == "a\nb\nc\nd\ne\n"


def test_nul_is_dropped_and_lone_surrogate_replaced() -> None:
    assert decode(b"a\x00b").text == "ab"
    assert decode("a\ud83dz".encode("utf-16-le", "surrogatepass") + "正常的中文句子。".encode("utf-16-le")).text


def test_declaration_counts_only_when_the_bytes_bear_it_out() -> None:
    arabic = "اللغة العربية هي أكثر اللغات تحدثا ونطقا ضمن مجموعة اللغات السامية"
    assert decode(arabic.encode("cp1256"), declared="utf-8").text == arabic
    assert decode(arabic.encode("iso8859-6"), declared="iso-8859-6").text == arabic
    assert decode(CHINESE.encode("gbk"), declared="gb2312").text == CHINESE
    assert decode(CHINESE.encode("gbk"), declared="shift_jis").text == CHINESE


def test_unknown_or_dangerous_codec_names_are_no_codecs() -> None:
    assert known_codec("no-such-codec") is None
    assert known_codec("rot13") is None
    assert known_codec("base64") is None
    assert known_codec(None) is None
    assert known_codec('"GB2312"') == "gb18030"


def test_program_is_not_taken_for_utf16() -> None:
    assert wide_encoding(bytes(range(256)) * 8) is None


def test_lines_in_a_second_encoding_are_read_too() -> None:
    decoded = decode("前半部分是UTF-8编码。\n".encode() + "后半部分是GBK编码的内容数据。\nplain\n".encode("gbk"))
    assert decoded.text == "前半部分是UTF-8编码。\n后半部分是GBK编码的内容数据。\nplain\n"
    assert decoded.warnings == ("mixed_encodings: 1 lines were read as gb18030, the others as utf-8.",)


def test_rare_characters_are_believed_where_the_file_declares_its_encoding() -> None:
    text = "镕基 囍 堃 喆 €"
    assert decode(text.encode("gb18030"), declared="gb2312").text == text


def test_a_western_text_that_declares_gb2312_stays_western() -> None:
    text = "Größe für müde Füße, Straße über Köln."
    assert decode(text.encode("cp1252"), declared="gb2312").text == text


def test_a_form_feed_does_not_make_utf16_of_utf8() -> None:
    assert decode("a\x0bb\x0cc\u2028d\x85e".encode()).encoding == "utf-8"
