"""What a leaf says to the embedding model: its text, under the titles it stands below."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.ingestion.split.shapes import Leaf, Passage
from portal.gateway.protocols import TokenCounter

_ARROW = " > "
# Titles help to place a leaf, but must not drown it: at most as much as this share of the cap.
_SHARE = 4


def embedding_text(
    leaf: Leaf, passage: Passage, title: str, counter: TokenCounter, *, heading_in_text: bool = True
) -> str:
    """The text to embed: title and heading path above the leaf, never above `counter.max_tokens`."""
    return embedding_texts([(leaf, passage)], title, counter, heading_in_text=heading_in_text)[0]


def embedding_texts(
    pairs: Sequence[tuple[Leaf, Passage]], title: str, counter: TokenCounter, *, heading_in_text: bool = True
) -> list[str]:
    """As `embedding_text`, for many leaves with one count per different title line.

    Where title and path do not fit, the outer titles go first; the leaf itself is never cut. A title
    line that the leaf's own text begins with is not repeated.
    """
    if not heading_in_text:
        return [leaf.text for leaf, _ in pairs]
    choices = [_lines(passage.heading_path, title) for _, passage in pairs]
    unique = list(dict.fromkeys(line for lines in choices for line in lines))
    base = counter.count([""])[0]
    costs = dict(zip(unique, (count - base for count in counter.count(unique)), strict=True)) if unique else {}
    budget = counter.max_tokens // _SHARE
    texts = []
    for (leaf, _), lines in zip(pairs, choices, strict=True):
        # One token for the line break, which some tokenizers count.
        room = min(budget, counter.max_tokens - leaf.token_count - 1)
        line = next((line for line in lines if costs[line] <= room), "")
        texts.append(f"{line}\n{leaf.text}" if line and not leaf.text.startswith(line) else leaf.text)
    over = [index for index, count in enumerate(counter.count(texts)) if count > counter.max_tokens]
    for index in over:
        texts[index] = pairs[index][0].text
    return texts


def _lines(path: Sequence[str], title: str) -> list[str]:
    """From the fullest title line to the shortest."""
    titles = [" ".join(part.split()) for part in (title, *path)]
    titles = [part for part, before in zip(titles, ["", *titles], strict=False) if part and part != before]
    return [_ARROW.join(titles[first:]) for first in range(len(titles))]
