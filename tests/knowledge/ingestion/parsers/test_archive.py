"""Archives that lie about themselves."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.archive import Archive, entry_name
from portal.kernel.errors import ParseError
from tests.support.office_files import zip_of


def refusal(data: bytes, context: ParseContext | None = None) -> str:
    with pytest.raises(ParseError) as caught, Archive(data, context or ParseContext()) as archive:
        for entry in archive.entries:
            archive.read(entry)
    return caught.value.code


def test_entries_are_read_whole_in_part_and_as_a_stream() -> None:
    with Archive(zip_of({"a.txt": b"x" * 200_000, "b/": b""}), ParseContext()) as archive:
        assert archive.names == ("a.txt", "b/")
        assert archive.read("a.txt") == b"x" * 200_000
        assert archive.read("a.txt", at_most=3) == b"xxx"
        with archive.open("a.txt") as stream:
            assert (stream.read(5), len(stream.read())) == (b"xxxxx", 199_995)
        assert "a.txt" in archive and "c.txt" not in archive
        with pytest.raises(KeyError):
            archive.read("c.txt")


def test_a_bomb_is_stopped_by_what_comes_out_of_it() -> None:
    bomb = zip_of({"a.xml": b"\0" * 20_000_000})
    assert refusal(bomb) == "archive_limit"
    assert refusal(zip_of({"a.xml": b"\0" * 300_000}), ParseContext(max_archive_bytes=100_000)) == "archive_limit"


def test_a_short_entry_that_compresses_well_is_no_bomb() -> None:
    with Archive(zip_of({"a.xml": b"<p>same</p>" * 100_000}), ParseContext()) as archive:
        assert len(archive.read("a.xml")) == 1_100_000


def test_a_size_in_the_directory_that_is_a_lie_does_not_help_a_bomb() -> None:
    bomb = bytearray(zip_of({"a.xml": b"\0" * 20_000_000}))
    place = bomb.rindex(b"PK\x01\x02")
    struct.pack_into("<I", bomb, place + 24, 1000)
    assert refusal(bytes(bomb)) == "archive_limit"


def test_archives_inside_archives_draw_on_one_budget() -> None:
    inner = zip_of({"x.bin": bytes(range(256)) * 200})
    outer = zip_of({"one.zip": inner, "two.zip": inner})
    with Archive(outer, ParseContext(max_archive_bytes=80_000)) as archive:
        with archive.nested("one.zip") as first:
            assert len(first.read("x.bin")) == 51_200
        with pytest.raises(ParseError) as caught, archive.nested("two.zip") as second:
            second.read("x.bin")
    assert caught.value.code == "archive_limit"


def test_too_many_entries_are_refused_before_any_is_read() -> None:
    assert refusal(zip_of({str(n): b"" for n in range(11)}), ParseContext(max_archive_entries=10)) == "archive_limit"


def test_damage_is_found_wherever_it_is() -> None:
    whole = zip_of({"a.txt": bytes(range(256)) * 40})
    assert refusal(whole[:-30]) == "damaged_file"
    assert refusal(whole[:40] + b"\xff\xff" + whole[42:]) == "damaged_file"
    assert refusal(b"PK\x03\x04") == "damaged_file"
    assert refusal(b"") == "empty_file"
    assert refusal(b"%PDF-1.4") == "type_mismatch"


def test_a_wrong_checksum_is_damage() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a.txt", "hello world")
    assert refusal(stream.getvalue().replace(b"hello", b"jello")) == "damaged_file"


def test_an_encrypted_entry_asks_for_a_file_without_a_password() -> None:
    data = bytearray(zip_of({"a.txt": b"secret"}))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert refusal(bytes(data)) == "password_protected"


def test_nothing_is_written_whatever_the_names_are(tmp_path: Path) -> None:
    with Archive(zip_of({"../../evil.txt": b"x", "..\\evil.txt": b"y"}), ParseContext()) as archive:
        assert [archive.read(entry) for entry in archive.entries] == [b"x", b"y"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raw", "utf8", "name"),
    [
        ("制度.md".encode("gbk"), False, "制度.md"),
        ("制度.md".encode(), False, "制度.md"),
        ("制度.md".encode(), True, "制度.md"),
        (b"plain.txt", False, "plain.txt"),
        (b"a\x00b\\c", False, "ab/c"),
        (b"\xff\xff", True, "\ufffd\ufffd"),
    ],
)
def test_names_are_decoded_as_their_author_saw_them(raw: bytes, utf8: bool, name: str) -> None:
    assert entry_name(raw, utf8=utf8) == name
