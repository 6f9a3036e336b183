"""The collection of awkward Office files beside the checkout, where there is one."""

from __future__ import annotations

import csv
import importlib
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from knowledge.ingestion.blocks import ParseContext, Source
from portal.kernel.errors import ParseError

COLLECTION = Path(__file__).resolve().parents[4] / ".." / "shared" / "fixtures" / "docs"
SUFFIXES = (".docx", ".xlsx", ".xls", ".pptx", ".odt")
_DROPPED = re.compile("[\\s\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]+")


def rows() -> list[dict[str, str]]:
    manifest = COLLECTION / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    csv.field_size_limit(sys.maxsize)
    with manifest.open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in found if row["file"].endswith(SUFFIXES) and (COLLECTION / row["file"]).exists()]


def squeezed(text: str) -> str:
    return _DROPPED.sub("", unicodedata.normalize("NFKC", text))


@pytest.mark.skipif(not rows(), reason="the collection of awkward files is not here")
@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_an_awkward_file_gives_its_text_or_a_clear_refusal(row: dict[str, str]) -> None:
    path = COLLECTION / row["file"]
    expected = row["must_contain_or_expected_error"]
    parser = importlib.import_module(f"knowledge.ingestion.parsers.{path.suffix[1:]}")
    source = Source(path=path, name=path.name, mime="")
    if expected.startswith("ERROR:") and "altChunk" not in expected:
        with pytest.raises(ParseError) as caught:
            parser.parse(source, ParseContext())
        assert caught.value.code in ("no_text", "password_protected", "damaged_file", "unsafe_xml")
        return
    text = squeezed(parser.parse(source, ParseContext()).text)
    if not expected.startswith("ERROR:"):
        assert [part for part in expected.split(" ¦ ") if squeezed(part) not in text] == []
    unwanted = [part for part in (row["must_not_contain"] or "").split(" ¦ ") if squeezed(part)]
    assert [part for part in unwanted if squeezed(part) in text] == []
