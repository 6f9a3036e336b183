"""What holds for every parsed document."""

from __future__ import annotations

import json

import pytest

from knowledge.ingestion.blocks import Block, ParseContext, assemble
from knowledge.ingestion.finishing import finished
from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import parse


@pytest.mark.parametrize("text", ["…", "|  |  |\n|---|---|", "\u200b\u200d", "\u0301\u0302", "[image]"])
def test_signs_without_letters_are_no_text(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        finished(assemble("text/plain", [Block(kind="paragraph", text=text)]), ParseContext())
    assert caught.value.code == "no_text"


@pytest.mark.parametrize("text", ["字", "7", "😀", "| 0 |"])
def test_one_letter_digit_or_symbol_is_text(text: str) -> None:
    document = assemble("text/plain", [Block(kind="paragraph", text=text)])
    assert finished(document, ParseContext()) is document


def test_unstorable_characters_leave_text_titles_paths_and_facts() -> None:
    block = Block(kind="paragraph", text="a\x00b", heading_path=("x\ud800",), sheet="s\x00")
    document = finished(
        assemble(
            "m",
            [block, Block(kind="code", text="next")],
            warnings=["w\x00"],
            title="t\x00",
            metadata={"k\x00": "v\x00"},
        ),
        ParseContext(),
    )
    first, second = document.blocks
    assert (first.text, first.heading_path, first.sheet) == ("ab", ("x\ufffd",), "s")
    assert document.text[second.start : second.end] == "next"
    assert (document.title, document.metadata, document.warnings[0]) == ("t", {"k": "v"}, "w")


def test_more_text_than_allowed_is_refused() -> None:
    with pytest.raises(ParseError) as caught:
        finished(assemble("m", [Block(kind="paragraph", text="x" * 11)]), ParseContext(max_text=10))
    assert caught.value.code == "too_much_text"


@pytest.mark.parametrize("kind", ["txt", "md", "html", "csv", "json"])
def test_no_line_reads_backwards(kind: str) -> None:
    line = "open \u202etxt.efas\u202c.exe and \u2067אבג\u2069"
    written = {"json": json.dumps({"line": line}), "html": line.replace("\u202e", "&#x202e;")}
    text = finished(parse(written.get(kind, f"{line},x\n"), kind), ParseContext()).text
    assert "txt.efas" in text
    assert "\u202e" not in text
    assert "\u2067אבג\u2069" in text
