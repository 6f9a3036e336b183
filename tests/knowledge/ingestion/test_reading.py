"""`manage.py parse` and the function behind it."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from knowledge.ingestion.reading import read

FIELDS = {"kind", "text", "page", "sheet", "rows", "slide", "heading_path", "start", "end", "bbox"}


def test_report_names_type_blocks_and_positions(tmp_path: Path) -> None:
    path = tmp_path / "表.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    report = read(path)
    assert (report["name"], report["mime"], report["error"], report["warnings"]) == ("表.csv", "text/csv", None, [])
    (block,) = report["blocks"]
    assert set(block) == FIELDS
    assert (block["kind"], block["rows"], block["page"], block["heading_path"]) == ("table", [1, 2], None, [])


@pytest.mark.parametrize(
    ("content", "code"), [(b"", "empty_file"), (b"  \n", "no_text"), (b"MZ" + bytes(99), "type_mismatch")]
)
def test_refusal_is_part_of_the_report(tmp_path: Path, content: bytes, code: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    report = read(path)
    assert report["error"]["code"] == code
    assert report["blocks"] == []
    assert str(tmp_path) not in report["error"]["message"]


def test_missing_file_is_a_report_too(tmp_path: Path) -> None:
    assert read(tmp_path / "gone.txt")["error"]["code"] == "file_missing"


def test_command_prints_one_json_object_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# 标题\n\n正文 😀", encoding="utf-8")
    out = StringIO()
    call_command("parse", str(path), "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert [block["text"] for block in report["blocks"]] == ["标题", "正文 😀"]


def test_command_shows_blocks_to_people_and_fails_on_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# 标题\n\n正文", encoding="utf-8")
    out = StringIO()
    call_command("parse", str(path), stdout=out)
    assert "正文" in out.getvalue()
    path.write_text("", encoding="utf-8")
    with pytest.raises(SystemExit):
        call_command("parse", str(path), stdout=out)
    assert "empty_file" in out.getvalue()
