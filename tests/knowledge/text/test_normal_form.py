"""The normal form: what is folded, that it is stable, and that the way back is exact."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.text import clean, normalise

ANY_TEXT = st.text(st.characters(), max_size=60)
# Letters, marks and signs that compose, decompose, expand or vanish.
TRICKY = st.text(
    st.sampled_from(
        list("aeß İﬁ…㎏ｶﾞがＡ１\u0301\u0308\u0345\u3099\u1100\u1161\u11a8ㄱㅏ\u200b\u200d\ufeff\x00\ud83d知識庫裡，\r\n")
    ),
    max_size=24,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("ＡＢＣ１２３", "abc123"),
        ("pass\u200bword", "password"),
        ("知識庫", "知识库"),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("cafe\u0301", "café"),
        ("ｶﾞｽ", "ガス"),
        ("\x00a\ud83db", "a\ufffdb"),
        ("it\u2019s", "it\u2019s"),
    ],
)
def test_spellings_of_the_same_text_have_one_normal_form(text: str, normal: str) -> None:
    assert normalise(text).text == normal


@given(st.one_of(ANY_TEXT, TRICKY))
@settings(max_examples=1_500, deadline=None)
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    once = normalise(text).text
    assert normalise(once).text == once


@given(st.one_of(ANY_TEXT, TRICKY))
@settings(max_examples=1_000, deadline=None)
def test_each_range_maps_to_the_original_text_that_it_was_made_from(text: str) -> None:
    normal = normalise(text)
    origins = [normal.origin(index) for index in range(len(normal.text) + 1)]
    assert origins == sorted(origins)
    assert origins[-1] == len(text)
    for index, char in enumerate(normal.text):
        start, end = normal.span(index, index + 1)
        assert 0 <= start < end <= len(text)
        assert char in normalise(text[start:end]).text


@given(st.one_of(ANY_TEXT, TRICKY))
@settings(max_examples=500, deadline=None)
def test_cleaned_text_can_be_stored_anywhere_and_is_stable(text: str) -> None:
    cleaned = clean(text)
    assert "\x00" not in cleaned
    assert "\r" not in cleaned
    cleaned.encode("utf-8")
    assert clean(cleaned) == cleaned


def test_every_kind_of_newline_becomes_one() -> None:
    assert clean("a\r\nb\rc\u2028d\x0ce") == "a\nb\nc\nd\ne"


def test_a_letter_under_a_million_marks_takes_no_time() -> None:
    began = time.process_time()
    normal = normalise("a" + "\u0301\u0316" * 250_000 + "b")
    assert normal.text[-1] == "b"
    assert time.process_time() - began < 3
