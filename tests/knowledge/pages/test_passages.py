from __future__ import annotations

from typing import Any

from django.utils import translation

from knowledge.pages import passages
from knowledge.pages.passages import Part, Piece


def text_of(found: tuple[Part, ...]) -> str:
    return "\n".join("".join(piece.text for piece in part.pieces) for part in found)


def marked(found: tuple[Part, ...]) -> list[str]:
    return [piece.text for part in found for piece in part.pieces if piece.marked]


def hit(**changes: Any) -> dict[str, Any]:
    plain = {"relevance": 0.9, "heading_path": [], "page": None, "sheet": None, "rows": None, "slide": None}
    return {**plain, **changes}


def test_highlights_stay_on_their_words_across_paragraphs() -> None:
    text = "年假十天。\n\n病假五天，年假另算。"
    found = passages.parts(text, [[0, 2], [12, 14]])
    assert marked(found) == ["年假", "年假"]
    assert len(found) == 2


def test_overlapping_and_foreign_highlights_lose_no_letter() -> None:
    text = "alpha beta gamma"
    found = passages.parts(text, [[0, 7], [4, 10], [14, 99]])
    assert text_of(found) == text
    assert marked(found) == ["alpha b", "eta", "ma"]


def test_a_table_becomes_rows_with_a_head_and_keeps_its_marks() -> None:
    text = "Prices\n| Item | Price |\n|---|---|\n| TH-01 | 12 \\| 13 |"
    found = passages.parts(text, [[text.index("TH-01"), text.index("TH-01") + 5]])
    table = found[1]
    assert table.head is not None
    assert [cell[0].text for cell in table.head.cells] == ["Item", "Price"]
    assert table.rows[0].cells == ((Piece("TH-01", marked=True),), (Piece("12 | 13"),))


def test_an_excerpt_shows_the_place_with_most_terms_and_says_where_it_was_cut() -> None:
    text = "Nothing here. " * 60 + "The leak sensor is red. " + "Nothing there. " * 60
    at = text.index("leak")
    short = passages._shortened(text, [[at, at + 4]], passages.parts(text, []), 200)
    assert short is not None
    assert "leak sensor" in text_of(short)
    assert text_of(short).startswith("…")
    assert text_of(short).endswith("…")
    assert marked(short) == ["leak"]


def test_an_excerpt_of_a_long_table_keeps_its_head_and_the_rows_that_match() -> None:
    rows = [f"| part {n} | {n} coins |" for n in range(60)]
    text = "\n".join(["| Part | Price |", "|---|---|", *rows])
    at = text.index("part 41")
    short = passages._shortened(text, [[at, at + 7]], passages.parts(text, [[at, at + 7]]), 200)
    assert short is not None
    assert short[-1].head is not None
    assert len(short[-1].rows) == passages.TABLE_LINES
    assert any(row.marked for row in short[-1].rows)


def test_a_short_passage_is_not_cut() -> None:
    assert passages._shortened("Short.", [], passages.parts("Short.", []), 200) is None


def test_cited_are_the_first_that_are_at_least_half_as_relevant_as_the_best() -> None:
    assert passages.cited([]) == 0
    assert passages.cited([hit(relevance=0.9), hit(relevance=0.5), hit(relevance=0.1)]) == 2
    assert passages.cited([hit(relevance=0.0)]) == 1
    assert passages.cited([hit()] * 9) == passages.CITED_MOST


def test_the_place_reads_in_the_language_of_the_page() -> None:
    with translation.override("en"):
        assert passages.place(hit(heading_path=["Leave"], page=8)) == "Leave › page 8"
        assert passages.place(hit(sheet="2026", rows=[4, 9])) == "2026 rows 4–9"


def test_a_passage_in_another_language_than_the_page_says_so() -> None:
    with translation.override("en"):
        assert passages.language_of("员工每年有十天年假 (annual leave)") == "zh-Hans"
        assert passages.language_of("Ten days of leave") == ""
    with translation.override("zh-hans"):
        assert passages.language_of("Ten days of leave") == "en"
