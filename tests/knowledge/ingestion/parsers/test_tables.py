"""Pipe tables, storable characters and the headers of pictures."""

from __future__ import annotations

import pytest

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.images import Pictures, image_header
from knowledge.ingestion.parsers.tables import Cell, markdown_table, place, trimmed
from tests.support.office_files import png


def test_rows_are_padded_and_cells_stay_on_one_line() -> None:
    assert markdown_table([["a", "b|c"], ["x\ny"], ["1", "2", "3"]]) == (
        "| a | b\\|c |  |\n|---|---|---|\n| x y |  |  |\n| 1 | 2 | 3 |"
    )
    assert markdown_table([]) == ""


def test_a_head_may_be_blank_or_several_rows() -> None:
    assert markdown_table([["a"], ["b"]], header_rows=0) == "|  |\n|---|\n| a |\n| b |"
    assert markdown_table([["p", "q"], ["r", "q"], ["1", "2"]], header_rows=2) == "| p r | q |\n|---|---|\n| 1 | 2 |"


def test_spans_hold_their_value_once() -> None:
    rows = [[Cell("a", columns=2), Cell("b", rows=2)], [Cell("c"), Cell("d")], [Cell("e"), Cell("f"), Cell("g")]]
    assert place(rows) == [["a", "", "b"], ["c", "d"], ["e", "f", "g"]]


def test_a_span_that_claims_a_billion_columns_is_cut() -> None:
    assert len(place([[Cell("a", columns=10**9, rows=10**9)], [Cell("b")]])[0]) == 16_384


def test_blank_rows_and_columns_are_trimmed() -> None:
    assert trimmed([["", " "], ["a", "", "b"], [""]]) == [["a", "b"]]


def test_only_what_can_be_stored_is_kept() -> None:
    assert storable("a\x00b\ud83dc\ud83d\ude00d\r\ne\x0bf\ufffe") == "ab\ufffdc😀d\ne\nf"
    assert storable("plain 文字") == "plain 文字"


def jpeg(width: int, height: int) -> bytes:
    frame = b"\xff\xc0\x00\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return b"\xff\xd8\xff\xe0\x00\x04ab" + frame + b"\0" * 12


@pytest.mark.parametrize(
    ("data", "header"),
    [
        (png(30, 20), ("image/png", 30, 20)),
        (b"GIF89a" + b"\x1e\x00\x14\x00", ("image/gif", 30, 20)),
        (jpeg(30, 20), ("image/jpeg", 30, 20)),
        (b"BM" + b"\0" * 16 + b"\x1e\0\0\0\xec\xff\xff\xff", ("image/bmp", 30, 20)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x1d\0\0\x13\0\0", ("image/webp", 30, 20)),
        (b"<svg/>", None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
    ],
)
def test_pictures_are_measured_by_their_header(data: bytes, header: tuple[str, int, int] | None) -> None:
    assert image_header(data) == header


def test_the_same_picture_is_kept_once_and_tiny_ones_not_at_all() -> None:
    pictures = Pictures(ParseContext())
    assert pictures.add(png(16, 16)) == pictures.add(png(16, 16), "alt") != pictures.add(png(20, 20))
    assert pictures.add(png(15, 400)) is None and pictures.add(png(16, 500)) is None
    assert [image.alt for image in pictures.images] == ["alt", ""]


def test_what_is_left_out_of_the_pictures_is_counted_with_its_reason() -> None:
    pictures = Pictures(ParseContext(max_images=2))
    for size in (20, 21, 22, 23):
        pictures.add(png(size, size))
    pictures.add(png(4, 4))
    pictures.add(b"<svg/>")
    assert len(pictures.images) == 2
    assert [warning.partition(":")[0] for warning in pictures.warnings] == [
        "pictures_decorative",
        "pictures_not_shown",
        "pictures_left_out",
    ]
    assert "2 pictures were too large or too many" in pictures.warnings[-1]


def test_the_bytes_of_all_pictures_together_are_limited() -> None:
    first, second = png(20, 20), png(21, 21)
    pictures = Pictures(ParseContext(max_image_bytes=len(first)))
    assert pictures.add(first) and pictures.add(first) and pictures.add(second) is None
    assert pictures.left_out == 1
