from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from knowledge.models import KnowledgeBase
from knowledge.retrieval import MODES, RetrievalRequest, retrieve
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import ModelEndpoint
from tests.knowledge.retrieval.library import Library, make_endpoint, make_space

TEXTS = (
    "传感器-温度-TH01 安装说明",
    "传感器-温度-TH02 安装说明",
    "错误代码 E-1024：电源电压过低",
    "本公司通过 GB/T 19001-2016 认证",
    "C++ 编码规范",
    "C# 编码规范",
    "函数 get_user_by_id 返回用户",
    "iPhone 15 Pro 采购价格",
    "重置密码步骤：打开设置，点安全",
    "Tell me what's new in release 5",
    "型号 ABC123 的保修期",
    "知识库管理员手册",
    "ISO-9001 quality handbook",
    "打印机卡纸怎么办",
)
FIRST = {
    "传感器-温度-TH01": TEXTS[0],
    "E-1024": TEXTS[2],
    "GB/T 19001-2016": TEXTS[3],
    "C++": TEXTS[4],
    "get_user_by_id": TEXTS[6],
    "iPhone15Pro": TEXTS[7],
    "请问怎么重置密码": TEXTS[8],
    "what's": TEXTS[9],
    "ＡＢＣ１２３": TEXTS[10],
    "知識庫": TEXTS[11],
    "9001": TEXTS[12],
    "th02": TEXTS[1],
    "What's your password policies?": None,
}
ODD = [
    "",
    " ",
    "-" * 33,
    "-" * 32,
    "？？？",
    "😀",
    "😀😀 🎉",
    "&|!()<>*\\",
    "a & b | !c <-> d:*",
    "'; DROP TABLE knowledge_chunk; --",
    "maxkb -报错",
    "GB -50016",
    "'",
    '"unbalanced',
    "\\",
    "%s %(x)s %%",
    "\x00\x00",
    "\ud83d",
    "שלום עולם",
    "‮abc",
    "ｆｕｌｌ　ｗｉｄｔｈ",
    "x" * 10_000,
    "密码 " * 5_000,
    "pass\u200bword",
    "\n\t\r",
    "a:3,4A",
    "::::",
]


@pytest.fixture
def base(library: Library, local_model: ModelEndpoint) -> KnowledgeBase:
    base = library.base("Mixed", embedding=local_model)
    vectors = embedder_for(local_model).embed_passages(TEXTS)
    library.document(base, "-", *TEXTS, space=space_of(local_model), vectors=vectors)
    return base


@pytest.mark.parametrize("mode", ["blend", "keywords"])
def test_codes_and_spellings_find_their_passage_first(library: Library, base: KnowledgeBase, mode: str) -> None:
    for query, text in FIRST.items():
        hits = retrieve(library.principal("bob"), RetrievalRequest(query, mode=mode)).hits  # type: ignore[arg-type]
        if text is not None:
            assert hits and hits[0].text == text, query


def test_odd_queries_give_an_answer_or_nothing_and_never_an_error(library: Library, base: KnowledgeBase) -> None:
    for query in ODD:
        for mode in MODES:
            result = retrieve(library.principal("bob"), RetrievalRequest(query, mode=mode))
            assert all(0 <= hit.relevance <= 1 for hit in result.hits)
            result.as_json()
    for query in ("-" * 33, "？？？", "\x00"):
        assert retrieve(library.principal("bob"), RetrievalRequest(query, mode="keywords")).hits == ()


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60))
def test_any_text_can_be_asked(library: Library, base: KnowledgeBase, query: str) -> None:
    result = retrieve(library.principal("bob"), RetrievalRequest(query, mode="keywords", top_k=3))
    assert len(result.hits) <= 3


def test_many_random_mixtures_of_operators_and_words_are_answered(library: Library, base: KnowledgeBase) -> None:
    dice = random.Random(5)
    pieces = ["'", '"', "-", ":", "&", "|", "!", "(", ")", "<", ">", "*", "\\", "密码", "E-1024", " ", "😀", "\u200b"]
    for _ in range(150):
        query = "".join(dice.choices(pieces, k=dice.randint(1, 30)))
        retrieve(library.principal("bob"), RetrievalRequest(query, mode="keywords"))
    hits = retrieve(library.principal("bob"), RetrievalRequest("' & !E-1024 |:*", mode="keywords")).hits
    assert hits[0].text == TEXTS[2]


def test_an_answer_is_more_relevant_than_what_merely_comes_first(library: Library, base: KnowledgeBase) -> None:
    asked = retrieve(library.principal("bob"), RetrievalRequest("怎么重置密码"))
    foreign = retrieve(library.principal("bob"), RetrievalRequest("长江的发源地在哪座山脉"))
    assert asked.hits[0].relevance > 0.5 > foreign.hits[0].relevance
    cut = retrieve(library.principal("bob"), RetrievalRequest("长江的发源地在哪座山脉", threshold=0.5))
    assert cut.hits == () and cut.below_threshold > 0


def test_a_hit_tells_where_it_came_from(library: Library, base: KnowledgeBase) -> None:
    result = retrieve(library.principal("bob"), RetrievalRequest("E-1024 电压"))
    hit = result.hits[0]
    assert hit.rank == 1 and hit.scale == "blend"
    assert hit.parts["keywords"].rank == 1 and hit.parts["embedding"].rank >= 1
    assert [hit.text[start:end] for start, end in hit.highlights]
    assert [step["name"] for step in result.trace["steps"]] == [
        "what may be searched",
        "embed the query",
        "search by words",
        "search by meaning",
        "complete the scores",
        "blend",
        "load passages",
    ]
    assert {row["lexeme"]: row["chunks"] for row in result.trace["lexemes"]}["e-1024"] == 1
    assert result.trace["plan"]


def test_the_best_leaf_stands_for_its_passage(library: Library) -> None:
    base = library.base("Leaves")
    library.document(base, "-", ["红色的门", "蓝色的窗"], ["绿色的树"])
    hits = retrieve(library.principal("bob"), RetrievalRequest("蓝色的窗", mode="keywords")).hits
    assert hits[0].text == "红色的门\n蓝色的窗"
    assert (hits[0].leaf_start, hits[0].leaf_end) == (5, 9)
    assert len({hit.chunk for hit in hits}) == len(hits)


def test_copies_are_shown_once_but_codes_that_differ_stay_two_answers(library: Library) -> None:
    base = library.base("Copies")
    long = "本设备在使用之前必须接地，由专业人员安装调试并定期检查维护，否则可能发生危险。" * 2
    library.document(base, "a", long)
    library.document(base, "b", long)
    library.document(base, "c", long + "型号 TH-01")
    library.document(base, "d", long + "型号 TH-02")
    hits = retrieve(library.principal("bob"), RetrievalRequest("设备 接地", mode="keywords")).hits
    assert sorted(hit.text.removeprefix(long) for hit in hits) == ["", "型号 TH-01", "型号 TH-02"]


def test_a_base_whose_model_is_away_is_searched_by_words_beside_others(library: Library, base: KnowledgeBase) -> None:
    plain = library.base("Plain", embedding=make_endpoint(make_space()))
    library.document(plain, "p", "重置密码请联系前台")
    result = retrieve(library.principal("bob"), RetrievalRequest("重置密码"))
    assert {hit.base for hit in result.hits[:2]} == {plain.uid, base.uid}
    assert [warning["code"] for warning in result.warnings] == ["embedding_away"]


def test_settings_of_the_first_base_fill_what_the_request_leaves_open(library: Library) -> None:
    config = {"searching": {"mode": "keywords", "top_k": 2, "threshold": 0.0, "weight": 0.5, "neighbours": 1}}
    base = library.base("Set up", config=config)
    library.document(base, "-", "apple one", "apple two", "apple three")
    result = retrieve(library.principal("bob"), RetrievalRequest("apple", base_uids=(base.uid,)))
    assert result.mode == "keywords" and len(result.hits) == 2
    assert any(hit.before or hit.after for hit in result.hits)


def test_both_fusions_agree_on_a_clear_answer(library: Library, base: KnowledgeBase) -> None:
    for fusion in ("convex", "rrf"):
        hits = retrieve(library.principal("bob"), RetrievalRequest("E-1024 电源电压", fusion=fusion)).hits
        assert hits[0].text == TEXTS[2]
        assert hits[0].scale == ("rrf" if fusion == "rrf" else "blend")
