"""Archives of documents."""

from __future__ import annotations

import io
import zipfile

import pytest

from knowledge.ingestion.blocks import ParseContext
from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import codes, parse, shapes


def bundle(files: dict[str, bytes | str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def gbk_names(files: dict[str, bytes]) -> bytes:
    """A zip as Windows in China writes it: names in GBK, without the UTF-8 flag."""
    placeholders = {chr(65 + number) * len(name.encode("gbk")): name for number, name in enumerate(files)}
    data = bundle({placeholder: files[name] for placeholder, name in placeholders.items()})
    for placeholder, name in placeholders.items():
        data = data.replace(placeholder.encode(), name.encode("gbk"))
    return data


def test_entries_stand_in_order_under_their_names() -> None:
    document = parse(bundle({"b.md": "# T\ntext", "dir/a.txt": "plain"}), "zip")
    assert shapes(document) == [
        ("heading", "b.md"),
        ("heading", "T"),
        ("paragraph", "text"),
        ("heading", "dir/a.txt"),
        ("paragraph", "plain"),
    ]
    assert [(block.level, block.heading_path) for block in document.blocks][:3] == [
        (1, ()),
        (2, ("b.md",)),
        (None, ("b.md", "T")),
    ]


def test_names_in_gbk_are_read() -> None:
    document = parse(gbk_names({"制度.md": "正文".encode(), "资料/员工手册.txt": "内容".encode()}), "zip")
    headings = [block.text for block in document.blocks if block.kind == "heading"]
    assert headings == ["制度.md", "资料/员工手册.txt"]


def test_what_operating_systems_leave_behind_is_no_document() -> None:
    files: dict[str, bytes | str] = {
        "__MACOSX/._a.txt": "x", "a.txt": "kept", ".DS_Store": b"\x00\x01", "Thumbs.db": b"\x00", "~$b.docx": b"\x00"
    }  # fmt: skip
    document = parse(bundle(files), "zip")
    assert [text for _, text in shapes(document)] == ["a.txt", "kept"]
    assert document.warnings == ()


def test_unreadable_entry_is_named_and_the_others_are_read() -> None:
    document = parse(bundle({"run.exe": b"MZ" + b"\x00\x01" * 99, "empty.txt": b"", "a.txt": "kept"}), "zip")
    assert "kept" in document.text
    assert codes(document) == ["skipped_member", "skipped_member"]


def test_archive_with_nothing_readable_says_why() -> None:
    with pytest.raises(ParseError) as caught:
        parse(bundle({"run.exe": b"MZ" + b"\x00\x01" * 99}), "zip")
    assert caught.value.code == "no_readable_member"
    assert "run.exe" in str(caught.value)


def test_archives_inside_are_read_to_depth_two() -> None:
    third = bundle({"deep.txt": "too deep"})
    second = bundle({"second.txt": "second", "third.zip": third})
    document = parse(bundle({"first.txt": "first", "second.zip": second}), "zip")
    assert "second" in document.text
    assert "too deep" not in document.text
    assert "nested_too_deep" in " ".join(document.warnings)


def test_nesting_does_not_multiply_the_limits() -> None:
    inner = bundle({f"{number}.txt": "x" for number in range(6)})
    with pytest.raises(ParseError) as caught:
        parse(bundle({"a.zip": inner, "b.zip": inner}), "zip", ParseContext(max_archive_entries=10))
    assert caught.value.code == "archive_limit"


def test_names_that_climb_out_are_only_names() -> None:
    document = parse(bundle({"../../etc/evil.txt": "words", "emoji 😀\u202etxt.md": "more"}), "zip")
    assert document.blocks[0].text == "../../etc/evil.txt"
    assert "more" in document.text


def test_positions_inside_members_stay() -> None:
    document = parse(bundle({"a.csv": "a,b\n1,2\n"}), "zip")
    assert document.blocks[-1].rows == (1, 2)
