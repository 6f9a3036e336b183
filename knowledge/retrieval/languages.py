"""What words may say of a leaf in another language than the question: nothing against it.

A question's words can not stand in a leaf of another language, however well it answers, so in a base with two
languages a blend would put leaves of the question's own language first, whatever they say. Such a leaf is given the
share of words that is expected of it: as much for its cosine as the nearest leaf in the question's language has for
its own. Where no candidate is in the question's language nothing is expected, and the order is that of the vectors
and of what words match all the same (measured: docs/decisions/0130-words-across-languages.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import connection

from knowledge.retrieval.candidates import Candidate
from knowledge.text import query_kind, query_script

# Bytes of UTF-8 a character from which a leaf is taken for one in Han: a quarter of three, the rest of one.
_HAN_BYTES = 1.5


def with_expected(query: str, candidates: Sequence[Candidate], detail: dict[str, Any]) -> list[Candidate]:
    """The candidates of a blend, those in another language with `words_expected`.

    Not for questions that hold a code: a code stands in every language as it is. `detail` tells how many.
    """
    script = None if query_kind(query) == "identifier" else query_script(query)
    known = [item for item in candidates if item.question is None and item.cosine is not None]
    if script is None or not known:
        return list(candidates)
    in_han = _in_han([item.leaf for item in known])
    own = [item for item in known if (item.leaf in in_han) == (script == "han")]
    if not own or len(own) == len(known):
        return list(candidates)
    expected = _share_for_cosine(own)
    others = {item.leaf for item in known} - {item.leaf for item in own}
    detail["in_another_language"] = len(others)
    return [
        replace(item, words_expected=expected * max(item.cosine or 0.0, 0.0))
        if item.question is None and item.leaf in others
        else item
        for item in candidates
    ]


def _share_for_cosine(own: Sequence[Candidate]) -> float:
    """Share of words for each unit of cosine, 0 to 1, of the nearest of these leaves."""
    nearest = max(own, key=lambda item: (item.cosine or 0.0, -item.leaf))
    if not nearest.cosine or nearest.cosine <= 0:
        return 0.0
    return min((nearest.words_share or 0.0) / nearest.cosine, 1.0)


def _in_han(leaves: Sequence[int]) -> set[int]:
    """Those of the leaves whose text is Chinese, as far as the bytes of its characters tell."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM knowledge_chunk WHERE id = ANY(%s) AND octet_length(text) >= %s * char_length(text)",
            [list(leaves), _HAN_BYTES],
        )
        return {pk for (pk,) in cursor.fetchall()}
