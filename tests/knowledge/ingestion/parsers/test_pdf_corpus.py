"""The PDFs of the shared corpus, where it lies beside the checkout: everything its manifest names is found."""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from knowledge.ingestion.blocks import ParseContext, Source
from knowledge.ingestion.parsers.pdf import parse
from portal.kernel.errors import ParseError

DOCS = (Path(__file__).resolve().parents[4] / ".." / "shared" / "fixtures" / "docs").resolve()
_DROP = re.compile(r"[\s\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]+")


def squeeze(text: str) -> str:
    return _DROP.sub("", unicodedata.normalize("NFKC", text))


def manifest() -> list[dict[str, str]]:
    path = DOCS / "MANIFEST.tsv"
    if not path.exists():
        return []
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if row["file"].endswith(".pdf")]


@pytest.mark.skipif(not manifest(), reason="the shared corpus is not beside this checkout")
@pytest.mark.parametrize("row", manifest(), ids=lambda row: Path(row["file"]).name)
def test_a_corpus_file_gives_its_snippets_or_a_clear_refusal(row: dict[str, str]) -> None:
    path = DOCS / row["file"]
    expected = row["must_contain_or_expected_error"]
    try:
        parsed = parse(Source(path, path.name, "application/pdf"), ParseContext())
    except ParseError as error:
        assert expected.startswith("ERROR:")
        assert error.code in {"empty_file", "damaged_file", "password_protected", "no_text"}
        return
    text = squeeze(parsed.text)
    assert text
    if not expected.startswith("ERROR:"):
        assert [part for part in expected.split(" ¦ ") if squeeze(part) not in text] == []
    assert [part for part in row["must_not_contain"].split(" ¦ ") if squeeze(part) and squeeze(part) in text] == []
