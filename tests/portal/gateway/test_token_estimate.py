from __future__ import annotations

import pytest

from portal.gateway.local.tokens import E5TokenCounter
from portal.gateway.sample import SENTENCES
from portal.gateway.token_estimate import EstimatedTokenCounter


def test_the_estimate_is_never_below_the_count_of_a_real_tokenizer() -> None:
    exact, estimate = E5TokenCounter(), EstimatedTokenCounter(8192)
    texts = [*SENTENCES, "def get_user_by_id(self, id: int) -> User:", "| 1 | 2.50 | ISO-9001 |", "ＡＢＣ１２３"]
    own = [count - exact.overhead for count in exact.count(texts)]
    assert all(guess >= count for guess, count in zip(estimate.count(texts), own, strict=True))


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 2), ("年假", 5), ("holiday", 5), ("2024", 4), ("a-b", 5), ("a\nb", 5)]
)
def test_what_counts_as_a_token(text: str, tokens: int) -> None:
    assert EstimatedTokenCounter(8192).count([text]) == [tokens]
