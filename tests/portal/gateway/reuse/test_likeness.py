"""Which questions may share an answer: what words tell, and what the measured threshold tells."""

from __future__ import annotations

import numpy as np
import pytest

from portal.gateway.centring import Centred, Centring
from portal.gateway.local.centring import language_axis, mean_vector
from portal.gateway.local.model import E5
from portal.gateway.reuse.likeness import may_share
from portal.gateway.reuse.store import SPACE, THRESHOLDS
from tests.portal.gateway.reuse.pairs import DIFFERENT, SAME


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Who signs orders under 500 euros?", "Who signs orders under 5000 euros?"),
        ("What does TH-01 measure?", "What does TH-02 measure?"),
        ("What changed in v2.1?", "What changed in v2.2?"),
        ("Do I need a receipt?", "Do I not need a receipt?"),
        ("Why can't I sign in?", "Why can I sign in?"),
        ("需要发票吗？", "不需要发票吗？"),
        ("三个月试用期", "六个月试用期"),
        ("What is the maximum size?", "What is the minimum size?"),
        ("the limit in Berlin", "the limit in Munich"),
        ("What is the hotel limit?", "酒店的限额是多少？"),
        ("What does get_user_by_id return?", "What does get_user_by_name return?"),
        ("Use C++ here?", "Use C here?"),
    ],
)
def test_numbers_identifiers_negations_opposites_and_language_must_be_the_same(one: str, other: str) -> None:
    assert not may_share(one, other)
    assert not may_share(other, one)
    assert may_share(one, one)


def test_width_of_signs_and_case_of_words_do_not_matter() -> None:
    assert may_share("TH-01 的量程是多少？", "ＴＨ-01的量程是多少?")
    assert may_share("how long is the Probation period", "How long is the probation period?") is False
    assert may_share("How long is it?", "how long is it")


def test_the_threshold_lets_no_false_hit_through_and_most_paraphrases(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = Centred(E5(tmp_path_factory.mktemp("model"), threads=1), Centring(mean_vector(), language_axis()), SPACE)

    def likeness(pairs: tuple[tuple[str, str], ...]) -> list[float]:
        one, other = (np.asarray(model.embed_queries([pair[side] for pair in pairs])) for side in (0, 1))
        return [float(value) for value in (one * other).sum(axis=1)]

    threshold = THRESHOLDS[SPACE]
    close = [pair for pair, value in zip(DIFFERENT, likeness(DIFFERENT), strict=True) if value >= threshold]
    assert close, "the set holds pairs that the threshold alone lets through"
    assert [pair for pair in close if may_share(*pair)] == []
    unguarded = [value for pair, value in zip(DIFFERENT, likeness(DIFFERENT), strict=True) if may_share(*pair)]
    assert max(unguarded) < threshold - 0.03
    shared = [may_share(*pair) and value >= threshold for pair, value in zip(SAME, likeness(SAME), strict=True)]
    assert sum(shared) / len(shared) >= 0.85
