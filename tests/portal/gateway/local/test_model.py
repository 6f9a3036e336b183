from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from portal.gateway.centring import Centring, measure
from portal.gateway.local.centring import language_axis, mean_vector
from portal.gateway.local.model import E5
from portal.gateway.local.tokens import PASSAGE, QUERY
from portal.gateway.local.weights import SPACE
from portal.gateway.sample import CHINESE, ENGLISH, SENTENCES

LEAVE_ZH = "员工入职满一年后，每年享有五天带薪年休假。"
LEAVE_EN = "Employees are entitled to five days of paid annual leave after one year of service."
BACKUP_ZH = "服务器每天凌晨两点自动备份，备份文件保留三十天。"


def test_vectors_are_of_length_one(model: E5) -> None:
    vectors = model.embed_passages([LEAVE_ZH, "a", "😀" * 50])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


ASK_LEAVE_ZH = "年假有多少天？"
ASK_LEAVE_EN = "How many days of annual leave do I get?"
ASK_BACKUP_ZH = "怎样备份服务器？"


@pytest.mark.parametrize(("query", "answer"), [(ASK_LEAVE_ZH, LEAVE_ZH), (ASK_LEAVE_EN, LEAVE_EN)])
def test_a_question_is_closer_to_its_answer_than_to_another_text(model: E5, query: str, answer: str) -> None:
    right, wrong = model.embed_passages([answer, BACKUP_ZH])
    asked = model.embed_queries([query])[0]
    assert asked @ right > asked @ wrong + 0.03


def test_an_english_passage_is_closer_to_the_chinese_question_that_it_answers(model: E5) -> None:
    passage = model.embed_passages([LEAVE_EN])[0]
    right, wrong = model.embed_queries([ASK_LEAVE_ZH, ASK_BACKUP_ZH])
    assert passage @ right > passage @ wrong + 0.02


def test_cosines_are_those_of_the_weights_without_rounding(model: E5) -> None:
    """Expected: the same weights in float32 arithmetic, with another implementation of the encoder."""
    passages = model.embed_passages([LEAVE_ZH, LEAVE_EN, BACKUP_ZH])
    queries = model.embed_queries([ASK_LEAVE_ZH, ASK_BACKUP_ZH, ASK_LEAVE_EN])
    expected = [[0.897, 0.792, 0.858], [0.841, 0.753, 0.926], [0.825, 0.885, 0.805]]
    np.testing.assert_allclose(queries @ passages.T, expected, atol=0.015)


def test_passages_and_queries_have_different_prefixes(model: E5) -> None:
    assert model.tokens(LEAVE_ZH, PASSAGE) != model.tokens(LEAVE_ZH, QUERY)
    assert not np.allclose(model.embed_passages([LEAVE_ZH]), model.embed_queries([LEAVE_ZH]), atol=1e-3)


def test_a_long_text_is_cut_at_512_tokens(model: E5) -> None:
    long = LEAVE_ZH * 200
    assert len(model.tokens(long, PASSAGE)) == 512
    np.testing.assert_array_equal(model.embed_passages([long]), model.embed_passages([long + BACKUP_ZH]))


def test_a_long_run_of_white_space_does_not_push_the_text_out(model: E5) -> None:
    assert model.tokens(" " * 20_000 + LEAVE_ZH, PASSAGE) == model.tokens(LEAVE_ZH, PASSAGE)


def test_a_vector_does_not_depend_on_the_texts_beside_it(model: E5, model_folder: Path) -> None:
    texts = [LEAVE_ZH, "a", BACKUP_ZH * 6, LEAVE_EN, ""]
    alone = np.concatenate([model.embed_passages([text]) for text in texts])
    np.testing.assert_array_equal(model.embed_passages(texts), alone)
    np.testing.assert_array_equal(E5(model_folder, threads=2).embed_passages(texts), alone)


def test_no_texts_give_no_vectors(model: E5) -> None:
    assert model.embed_passages([]).shape == (0, 384)


@pytest.mark.parametrize("text", ["\ufdfa" * 600, "\ud800 lone", "\x00nul", "\u202e" * 30, "e\u0301" * 2000])
def test_odd_characters_have_a_vector_too(model: E5, text: str) -> None:
    assert np.isfinite(model.embed_passages([text])).all()


def test_several_threads_get_the_same_vectors(model: E5) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.embed_queries([LEAVE_EN]), range(8)))
    assert all(np.array_equal(found[0], other) for other in found)


def test_mean_and_language_axis_are_those_of_the_sample(model: E5) -> None:
    found = measure(model.embed_passages(CHINESE), model.embed_passages(ENGLISH))
    np.testing.assert_allclose(mean_vector(), found.mean, atol=2e-3)
    assert found.axis is not None
    np.testing.assert_allclose(language_axis(), found.axis, atol=5e-3)


def test_centring_spreads_the_cosines_of_unrelated_texts_around_zero(model: E5) -> None:
    vectors = Centring(mean_vector(), language_axis()).apply(model.embed_passages(SENTENCES))
    cosines = (vectors @ vectors.T)[np.triu_indices(len(SENTENCES), 1)]
    assert abs(cosines.mean()) < 0.05


def test_a_question_finds_its_answer_in_the_other_language_before_other_texts_of_its_own(model: E5) -> None:
    answer, *others = texts = [
        "Each backup of the server is kept for four weeks.",
        "保留所有权利。",
        "会议室需要提前预约。",
    ]
    centred = Centring(mean_vector(), language_axis())
    question = model.embed_queries(["备份保留多久？"])
    plain = (model.embed_passages(texts) @ question[0]).argmax()
    moved = (centred.apply(model.embed_passages(texts)) @ centred.apply(question)[0]).argmax()
    assert texts[plain] in others and texts[moved] == answer


def test_the_space_names_model_and_weights() -> None:
    assert SPACE == "multilingual-e5-small-int8@1571fc98"
