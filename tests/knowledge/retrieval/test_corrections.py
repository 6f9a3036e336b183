"""Mistyped words and Chinese in Latin letters: put right where the base lets them, and only where nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge import base_settings, statistics
from knowledge.metadata import condition
from knowledge.models import Chunk, KnowledgeBase
from knowledge.questions import verbs as questions
from knowledge.retrieval import Filters, RetrievalRequest, RetrievalResult, retrieve
from knowledge.retrieval.corrections import distance, one_step
from knowledge.terms import verbs
from knowledge.text import pinyin
from tests.knowledge.retrieval.library import Library
from tests.knowledge.retrieval.test_search import FIRST, ODD, TEXTS

needs_readings = pytest.mark.skipif(not pinyin.is_available(), reason="the table of readings is not installed")


def base_with(library: Library, name: str, **options: Any) -> KnowledgeBase:
    config = base_settings.with_section({}, "searching", options)
    return library.base(name, config=config)


def ask(library: Library, query: str, **request: Any) -> RetrievalResult:
    return retrieve(library.principal("bob"), RetrievalRequest(query, mode="keywords", **request))


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("how to reset my pasword", "how to reset my password"),
        ("pasSWord", ""),
        ("confgiuration", "configuration"),
        ("kubernettes", "kubernetes"),
        ("elasticseerhc", "elasticsearch"),
        ("E-1042", ""),
        ("paswrod123", ""),
        ("cats", ""),
    ],
)
def test_a_mistyped_word_is_searched_as_the_nearest_known_one(library: Library, query: str, meant: str) -> None:
    base = base_with(library, "Help", typos=True)
    library.document(base, "a", "password reset", "configuration file", "kubernetes cluster", "E-1024", "elasticsearch")
    library.document(base, "b", "how to do it my way", "cast iron")
    statistics.fold_all()
    result = ask(library, query)
    if meant:
        assert result.meant.endswith(meant.split()[-1])
        assert result.hits
        assert result.corrections[0]["kind"] == "typo"
        assert result.trace["corrections"] == list(result.corrections)
    else:
        assert result.corrections == () and result.meant == ""


def test_the_words_that_were_put_in_are_marked(library: Library) -> None:
    base = base_with(library, "Help", typos=True)
    library.document(base, "a", "Reset your password here", "Other things")
    hit = ask(library, "pasword").hits[0]
    assert [hit.text[start:end] for start, end in hit.highlights] == ["password"]


def test_nothing_is_put_right_where_the_base_does_not_say_so(library: Library) -> None:
    library.document(base_with(library, "Help"), "a", "password reset")
    result = ask(library, "pasword")
    assert result.hits == () and result.corrections == ()
    assert "look for what was meant" not in [step["name"] for step in result.trace["steps"]]


def test_a_known_word_is_never_put_right(library: Library) -> None:
    base = base_with(library, "Help", typos=True)
    library.document(base, "a", *["password reset"] * 5, "the passwort of our German office")
    result = ask(library, "passwort")
    assert result.corrections == () and result.hits[0].text.startswith("the passwort")


def test_each_base_is_corrected_by_its_own_option_and_words(library: Library) -> None:
    lenient, strict = base_with(library, "Lenient", typos=True), base_with(library, "Strict")
    library.document(lenient, "a", "password reset")
    library.document(strict, "b", "password policy")
    assert [hit.document_name for hit in ask(library, "pasword").hits] == ["a"]


def test_words_of_a_base_that_is_hidden_correct_nothing(library: Library) -> None:
    library.document(base_with(library, "Help", typos=True), "a", "something")
    hidden = library.base("Hidden", viewers=(), config=base_settings.with_section({}, "searching", {"typos": True}))
    library.document(hidden, "secret", "xylograph")
    assert ask(library, "xilograph").corrections == ()


def test_odd_queries_are_answered_with_every_option_on(library: Library) -> None:
    base = base_with(library, "All", typos=True, pinyin=True, per_document=1, neighbours=3)
    verbs.add(library.principal("alice"), base, verbs.wanted("年假", ("annual leave", "C++", "'"), 2.0))
    document = library.document(base, "a", *TEXTS)
    passage = Chunk.objects.defer("lexemes").filter(revision=document.active_revision, level="passage").first()
    assert passage is not None
    questions.add(library.principal("alice"), passage, ["Who's there & why | not: '*'?", "传感器 怎么 安装"])
    for query in [*ODD, *FIRST, "pasword nianjia 年假 C++ who's", "annual  leave"]:
        result = ask(library, query, filters=Filters(metadata=(condition("a b", "in", ["x'", "%s"]),)))
        assert result.hits == ()
        for hit in ask(library, query).hits:
            assert 0 <= hit.relevance <= 1


def test_distances() -> None:
    assert distance("kitten", "sitting", 3) == 3
    assert distance("abcd", "abdc", 2) == 1
    assert distance("abcdef", "uvwxyz", 2) == 3
    assert all(distance("reset", other, 1) == 1 for other in one_step("reset"))


@needs_readings
@pytest.mark.parametrize("query", ["nianjia", "nian jia", "Nian'jia", "nj", "nianjia shenqing"])
def test_chinese_is_found_in_latin_letters(library: Library, query: str) -> None:
    base = base_with(library, "HR", pinyin=True)
    library.document(base, "a", "年假申请流程", "食堂的午餐")
    statistics.fold_all()
    result = ask(library, query)
    assert result.hits[0].text == "年假申请流程"
    assert result.corrections[0] == {
        "kind": "pinyin",
        "said": query,
        "meant": "年假申请" if "shenqing" in query else "年假",
    }
    assert result.hits[0].highlights


@needs_readings
def test_terms_of_the_base_are_read_aloud_too(library: Library) -> None:
    base = base_with(library, "HR", pinyin=True)
    verbs.add(library.principal("alice"), base, verbs.wanted("云枢", ("枢纽云",)))
    library.document(base, "a", "云枢的说明", "别的")
    for query in ("yunshu", "ys", "shuniuyun"):
        assert ask(library, query).hits[0].text == "云枢的说明"


@needs_readings
def test_english_that_is_known_is_no_pinyin(library: Library) -> None:
    base = base_with(library, "HR", pinyin=True)
    library.document(base, "a", "change management", "嫦娥", "长鹅")
    result = ask(library, "change")
    assert result.corrections == () and result.hits[0].text == "change management"


@needs_readings
def test_syllables() -> None:
    assert pinyin.syllables("xian")[:2] == [("xian",), ("xi", "an")]
    assert pinyin.syllables("xi'an")[0] == ("xi", "an")
    assert pinyin.syllables("password") == []
    assert pinyin.is_read("女儿", ("nv", "er")) and pinyin.is_read("银行", ("yin", "hang"))
    assert len(pinyin.syllables("a" * 39)) <= pinyin.MOST_WAYS
