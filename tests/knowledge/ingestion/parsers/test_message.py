"""E-mail."""

from __future__ import annotations

from email.message import EmailMessage

from tests.knowledge.ingestion.parsing import codes, parse, shapes
from tests.knowledge.ingestion.test_sniff import ole


def message(**headers: str) -> EmailMessage:
    result = EmailMessage()
    for name, value in {
        "Subject": "季度通知",
        "From": "王芳 <wang@example.com>",
        "To": "all@example.com",
        **headers,
    }.items():
        result[name] = value
    return result


def test_subject_people_and_plain_body() -> None:
    mail = message()
    mail.set_content("第一段。\n\n第二段。", charset="gb18030")
    document = parse(mail.as_bytes(), "eml")
    assert shapes(document) == [
        ("heading", "季度通知"),
        ("paragraph", "From: 王芳 <wang@example.com>\nTo: all@example.com"),
        ("paragraph", "第一段。"),
        ("paragraph", "第二段。"),
    ]
    assert document.title == "季度通知"
    assert document.metadata["from"] == "王芳 <wang@example.com>"


def test_body_given_twice_is_read_once() -> None:
    mail = message()
    mail.set_content("the words")
    mail.add_alternative("<p>the words</p>", subtype="html")
    assert parse(mail.as_bytes(), "eml").text.count("the words") == 1


def test_html_only_body_keeps_its_table() -> None:
    mail = message()
    mail.set_content("<table><tr><th>a</th></tr><tr><td>b</td></tr></table>", subtype="html")
    assert ("table", "| a |\n|---|\n| b |") in shapes(parse(mail.as_bytes(), "eml"))


def test_attachments_are_read_under_their_names_and_others_are_named() -> None:
    mail = message()
    mail.set_content("see attached")
    mail.add_attachment("工号,姓名\n007,司马光\n".encode("gbk"), maintype="text", subtype="csv", filename="名单.csv")
    mail.add_attachment(b"MZ\x00\x01" * 50, maintype="application", subtype="octet-stream", filename="run.exe")
    document = parse(mail.as_bytes(), "eml")
    table = document.blocks[-1]
    assert table.text == "| 工号 | 姓名 |\n|---|---|\n| 007 | 司马光 |"
    assert table.heading_path == ("名单.csv",)
    assert codes(document) == ["skipped_member"]
    assert "run.exe" in document.warnings[0]


def test_forwarded_message_is_read_as_a_member() -> None:
    inner = message(Subject="原邮件")
    inner.set_content("inner words")
    mail = message()
    mail.set_content("outer words")
    mail.add_attachment(inner)
    text = parse(mail.as_bytes(), "eml").text
    assert "outer words" in text
    assert "inner words" in text
    assert "原邮件" in text


def test_raw_gbk_header_and_wrong_charset_are_still_read() -> None:
    raw = (
        b"Subject: "
        + "关于年终奖金发放的通知".encode("gbk")
        + b"\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n"
    )
    document = parse(raw + "请各部门按时提交考核结果。".encode("gbk"), "eml")
    assert document.title == "关于年终奖金发放的通知"
    assert document.blocks[-1].text == "请各部门按时提交考核结果。"


def test_message_without_body_or_headers_is_no_error() -> None:
    assert parse(b"\n\n", "eml").blocks == ()
    assert parse(b"Content-Type: multipart/mixed; boundary=x\n\n--x\n", "eml").blocks == ()


def test_page_beside_a_plain_text_that_is_no_other_form_of_it_is_read_too() -> None:
    mail = message()
    mail.set_content("A note of the mail gateway.")
    mail.make_mixed()
    page = EmailMessage()
    page.set_content("<p>The letter itself.</p>", subtype="html")
    mail.attach(page)
    texts = [block.text for block in parse(mail.as_bytes(), "eml").blocks]
    assert texts[-2:] == ["A note of the mail gateway.", "The letter itself."]


def test_calendar_entry_without_a_text_is_read_and_named_files_of_text_are_attachments() -> None:
    mail = message()
    mail.set_content("BEGIN:VCALENDAR\nSUMMARY:Meeting\nEND:VCALENDAR", subtype="calendar")
    mail.make_mixed()
    table = EmailMessage()
    table.set_content("a,b\n1,2\n", subtype="csv")
    table.set_param("name", "numbers.csv")
    mail.attach(table)
    document = parse(mail.as_bytes(), "eml")
    assert "SUMMARY:Meeting" in document.text
    assert document.blocks[-1].heading_path == ("numbers.csv",)
    assert document.blocks[-1].text == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_old_word_file_as_an_attachment_is_named_with_what_to_do() -> None:
    mail = message()
    mail.set_content("see attached")
    mail.add_attachment(ole("WordDocument"), maintype="application", subtype="msword", filename="old.doc")
    document = parse(mail.as_bytes(), "eml")
    assert document.warnings == (
        "skipped_member: old.doc: needs_converter: This is an old Office format: save it as DOCX or PPTX.",
    )


def test_softly_wrapped_lines_are_whole_again() -> None:
    head = b"Subject: f\r\nContent-Type: text/plain; charset=utf-8; format=flowed"
    body = b"A long line that \r\nwas wrapped.\r\nNext line.\r\n\r\n> quoted and \r\n> goes on\r\n-- \r\nSig\r\n"
    found = parse(head + b"\r\n\r\n" + body, "eml")
    assert found.text == "f\n\nA long line that was wrapped.\nNext line.\n\n> quoted and goes on\n--\nSig"
    joined = "Content-Transfer-Encoding: 8bit\r\n\r\n这是一行被软 \r\n换行的中文。\r\n".encode()
    assert parse(head + b"; delsp=yes\r\n" + joined, "eml").text == "f\n\n这是一行被软换行的中文。"
