"""Lexemes: queries find what people mean by them, whatever the spelling."""

from __future__ import annotations

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.text import Term, Terms, highlight_spans, normalise, query_kind, query_lexemes, query_script, tokenise
from knowledge.text import dictionary as dictionaries
from knowledge.text.query import MAX_QUERY_LEXEMES
from knowledge.text.tokeniser import MAX_LEXEME


def lexemes(text: str, terms: Terms | None = None) -> set[str]:
    return {token.lexeme for token in tokenise(text, terms)}


@pytest.mark.parametrize(
    ("query", "document", "shared"),
    [
        ("传感器-温度-TH01", "型号：传感器-温度-TH01，量程 0-100", {"传感器温度th01", "传感器", "温度", "th01"}),
        ("传感器-温度-TH01", "请更换传感器-温度-TH01，谢谢", {"传感器温度th01"}),
        ("TH01-温度", "检查TH01-温度报警器", {"th01温度"}),
        ("E-1024", "报错 E1024 时请重启", {"e1024", "1024"}),
        ("GB/T 19001-2016", "符合GB/T19001-2016标准", {"gb", "19001", "2016"}),
        ("GB -50016", "按 GB 50016 执行", {"gb", "50016"}),
        ("C++", "用 C++ 写的服务", {"c++"}),
        ("C#", "C# 与 C++ 的区别", {"c#"}),
        ("get_user_by_id", "call get_user_by_id(7)", {"get_user_by_id", "get", "user", "id"}),
        ("get user by id", "call getUserById(7)", {"get", "user", "by", "id"}),
        ("iPhone 15 Pro", "iPhone15Pro 256G", {"iphon", "15", "pro"}),
        ("iPhone15Pro", "新的 iPhone 15 Pro 到货", {"iphon", "15", "pro"}),
        ("请问怎么重置密码", "重置密码步骤", {"重置", "密码"}),
        ("what's", "what is it? what's that", {"what's", "what"}),
        ("ＡＢＣ１２３", "abc123", {"abc123", "abc", "123"}),
        ("知識庫", "知识库", {"知识库", "知识"}),
        ("9001", "ISO-9001 认证", {"9001"}),
        ("ISO 9001", "ISO9001:2015", {"iso", "9001"}),
        ("password", "pass\u200bword", {"password"}),
        ("三码", "三码合一", {"三码"}),
        ("枪", "用枪的人", {"枪"}),
        ("安全", "信息安全管理制度", {"安全"}),
        ("著作权", "著作權法", {"著作", "著作权"}),
        ("policies", "our policy", {"policy"}),
        ("configured", "while configuring", {"configur"}),
        ("email", "send an e-mail", {"email"}),
        ("1.2", "since 1.2.3", {"1.2"}),
        ("v1.2.3", "version 1.2.3", {"1.2.3"}),
        ("1,000,000", "1000000 rows", {"1000000"}),
        ("li.wei@example.com", "mail li.wei@example.com", {"li.wei@example.com", "example.com"}),
        ("get-started.md", "see /docs/guide/get-started.md", {"get-started.md"}),
        ("007", "agent 007", {"007"}),
        ("カタカナ", "カタカナ表記", {"カタ", "タカ", "カナ"}),
        ("한국", "한국어를", {"한국"}),
        ("हिन्दी", "हिन्दी भाषा", {"हिन्दी"}),
    ],
)
def test_query_and_document_share_the_lexemes_that_matter(query: str, document: str, shared: set[str]) -> None:
    assert shared <= set(query_lexemes(query)) & lexemes(document)


@pytest.mark.parametrize("text", ["", "？？？", "-" * 33, "😀", "&|!()<>*\\", " \n\t", "\x00\ud83d", "\u200b"])
def test_a_text_without_words_has_no_lexemes(text: str) -> None:
    assert tokenise(text) == []
    assert query_lexemes(text) == []


def test_c_plus_plus_is_not_c() -> None:
    assert "c" not in lexemes("C++ and C#")
    assert "c" in lexemes("the C language")


def test_one_code_is_not_its_neighbour() -> None:
    whole = {"hx-2040a", "hx2040a", "2040a"}
    assert whole <= lexemes("HX-2040A")
    assert not whole & lexemes("HX-2040B")


@given(st.text(st.characters(), max_size=80))
@settings(max_examples=1_000, deadline=None)
def test_any_string_can_be_tokenised_and_offsets_lead_to_its_own_text(text: str) -> None:
    tokens = tokenise(text)
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)
    for token in tokens:
        assert 0 <= token.start < token.end <= len(text)
        assert token.lexeme
        assert len(token.lexeme) <= MAX_LEXEME
        if token.lexeme in normalise(text).text:
            assert token.lexeme in normalise(text[token.start : token.end]).text


@given(
    st.lists(
        st.sampled_from([*list("知识库的，- \n'"), "重置密码", "ISO-9001", "C++", "a_b", "1.2.3", "ｶﾞ", "é", "ﬁ"]),
        max_size=14,
    )
)
@settings(max_examples=500, deadline=None)
def test_a_document_is_found_by_each_of_its_own_lexemes(parts: list[str]) -> None:
    found = lexemes("".join(parts))
    for lexeme in found:
        assert set(query_lexemes(lexeme)) & found


def test_ten_thousand_fuzzed_queries_cause_no_error() -> None:
    rng = random.Random(7)
    alphabet = list("知識库密码abcXYZ0189") + list("'\"-:&|!()<>*\\/._@#+~^%$?=,;{}[]，。？！、…—“”‘’") + [
        "\x00", "\ud83d", "\u202e", "\u200b", "Ａ", "１", "😀", "ة", "ש", "\u0301", "ﷺ", " ", "\n", "C++", "E-1024",
    ]  # fmt: skip
    for _ in range(10_000):
        query = "".join(rng.choices(alphabet, k=rng.randrange(0, 40)))
        found = query_lexemes(query)
        assert len(found) == len(set(found))
        assert query_kind(query) in ("identifier", "short", "sentence")


def test_a_query_of_ten_thousand_characters_keeps_its_codes() -> None:
    filler = "的了在是" * 100 + " ".join(f"word{'abcdefghij'[i % 10] * (i % 7 + 1)}" for i in range(90))
    found = query_lexemes("ERR-90210 " + filler + "x" * 9_000)
    assert len(found) <= MAX_QUERY_LEXEMES
    assert "err-90210" in found


def test_a_very_long_word_gets_a_short_stand_in_that_tells_it_from_others() -> None:
    one, other = "a" * 50_000, "a" * 49_999 + "b"
    assert lexemes(one) == lexemes(one)
    assert lexemes(one).isdisjoint(lexemes(other))
    assert all(len(lexeme) <= MAX_LEXEME for lexeme in lexemes(one))


def test_three_hundred_characters_take_less_than_a_millisecond() -> None:
    chinese = "员工应当在每个工作日结束前提交报销单据，并由部门负责人审核后转交财务部处理。" * 8
    english = "Employees submit their expense reports before the end of each working day for approval. " * 4
    tokenise(chinese + english)
    for text in (chinese[:300], english[:300]):
        best = min(_seconds(text) for _ in range(20))
        assert best < 0.001


def _seconds(text: str) -> float:
    began = time.process_time()
    for _ in range(5):
        tokenise(text)
    return (time.process_time() - began) / 5


def test_threads_that_start_together_share_one_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionaries, "_loaded", None)
    barrier = threading.Barrier(4)
    seen: list[dictionaries.Dictionary] = []

    def load() -> None:
        barrier.wait()
        seen.append(dictionaries.dictionary())

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert len({id(one) for one in seen}) == 1


def test_synonyms_find_each_other_and_own_words_stay_whole() -> None:
    terms = Terms([Term("年假", ("带薪休假", "Annual Leave")), Term("云枢X1", weight=2.0), Term("¥", ("￥",))])
    assert "¥" in lexemes("售价￥", terms)
    assert "¥" in lexemes("￥99", terms)
    assert "年假" in lexemes("员工享有带薪休假十天", terms)
    assert "年假" in set(query_lexemes("annual leave", terms)) & lexemes("年假有多少天", terms)
    assert "云枢x1" in lexemes("云枢X1的说明书", terms)
    assert terms.weights["云枢x1"] == 2.0
    assert "年假" not in lexemes("员工享有带薪休假十天")


def test_a_term_does_not_cut_a_latin_word_in_two() -> None:
    terms = Terms([Term("ai"), Term("ＡＰＩ 网关")])
    assert "ai" not in lexemes("please maintain it", terms)
    assert "ai" in lexemes("用AI助手", terms)
    assert "api网关" in lexemes("API\n网关", terms)


def test_a_surface_of_two_terms_is_reported_and_leads_to_both() -> None:
    terms = Terms([Term("苹果公司", ("苹果",)), Term("红富士", ("苹果",)), Term("", ("无",))])
    assert terms.conflicts == {"苹果": ("苹果公司", "红富士")}
    assert {"苹果公司", "红富士"} <= lexemes("苹果", terms)


def test_a_thousand_bases_with_terms_need_no_thousand_dictionaries() -> None:
    bases = [Terms(Term(f"产品{base}型号{term}") for term in range(10)) for base in range(1_000)]
    assert "产品7型号3" in lexemes("关于产品7型号3的说明", bases[7])
    assert "产品7型号3" not in lexemes("关于产品7型号3的说明", bases[8])


@pytest.mark.parametrize(
    ("shown", "query", "marked"),
    [
        ("關於知識庫的說明", "知识库", ["知識庫"]),
        ("编号ＡＢＣ１２３。", "abc123", ["ＡＢＣ１２３"]),
        ("重置密码步骤", "请问怎么重置密码", ["重置密码"]),
        ("pass\u200bword!", "password", ["pass\u200bword"]),
        ("无关内容", "报销", []),
    ],
)
def test_matches_are_marked_in_the_text_as_it_is_shown(shown: str, query: str, marked: list[str]) -> None:
    assert [shown[start:end] for start, end in highlight_spans(shown, query_lexemes(query))] == marked


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("TH-01", "identifier"),
        ("ＥＮＣ－１０９９Ａ 质保多久", "identifier"),
        ("what does external_user_label_field_key mean", "identifier"),
        ("C++ 怎么安装", "identifier"),
        ("getUserById", "identifier"),
        ("年假", "short"),
        ("password reset", "short"),
        ("请问怎么重置密码", "sentence"),
        ("年假多少天？", "sentence"),
        ("how do I reset my password", "sentence"),
        ("2009年4月23日发生了什么", "sentence"),
    ],
)
def test_the_kind_of_a_query_is_recognised(query: str, kind: str) -> None:
    assert query_kind(query) == kind


@pytest.mark.parametrize(
    ("query", "script"),
    [
        ("how do I reset a password", "latin"),
        ("如何配置 nginx", "han"),
        ("ÜBER straße", "latin"),
        ("如何 set up", None),
        ("как сбросить пароль", None),
        ("1024 😀", None),
        ("", None),
    ],
)
def test_the_script_of_a_query_is_that_of_most_of_its_words(query: str, script: str | None) -> None:
    assert query_script(query) == script
