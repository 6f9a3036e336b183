from __future__ import annotations

import pytest

from knowledge.answering.citations import CheckedCitations


def read(text: str, given: tuple[int, ...] = (1, 2, 3), size: int = 1) -> tuple[str, list[int]]:
    """The whole, fed in pieces of `size` characters."""
    checked = CheckedCitations(given)
    pieces = [checked.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return "".join([*pieces, checked.end()]), checked.cited


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "shown", "cited"),
    [
        ("Ten days [1].", "Ten days [1].", [1]),
        ("Ten days [9].", "Ten days.", []),
        ("Ten [2][1][2].", "Ten [2][1][2].", [2, 1]),
        ("Ten [1, 9, 3].", "Ten [1][3].", [1, 3]),
        ("Ten [1-3].", "Ten [1][2][3].", [1, 2, 3]),
        ("十天【1】。", "十天[1]。", [1]),
        ("十天［1、2］", "十天[1][2]", [1, 2]),
        ("Ten [^2].", "Ten [2].", [2]),
        ("`a[9]` and\n```\nb[7] = c[1]\n```\nend [1]", "`a[9]` and\n```\nb[7] = c[1]\n```\nend [1]", [1]),
        ("one ` tick [9]\nnext [9] line", "one ` tick [9]\nnext line", []),
        ("[demo model] says [1", "[demo model] says [1", []),
        ("a [b] [] [x1] [12345]", "a [b] [] [x1] [12345]", []),
        ("ends with a blank ", "ends with a blank ", []),
    ],
)
def test_only_numbers_that_were_given_stand(text: str, shown: str, cited: list[int], size: int) -> None:
    assert read(text, size=size) == (shown, cited)


def test_what_was_removed_is_counted() -> None:
    checked = CheckedCitations([1])
    checked.feed("a [1] b [2] c [3, 4]")
    checked.end()
    assert (checked.cited, checked.removed) == ([1], 3)


def test_a_flood_of_brackets_is_passed_on_and_not_collected_for_ever() -> None:
    text = "[" + "1," * 5000
    assert read(text, size=7)[0] == text
