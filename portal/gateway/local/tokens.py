"""The local model's tokens: their ids, their number and where in the text they stand.

A SentencePiece unigram tokenizer (Kudo 2018, arXiv:1804.10959) of our own: the compiled one takes
1.1 s and 230 MB in every process that counts tokens, this one 0.2 s and 50 MB, and a chunk costs
about a hundredth of the time its vector does.

Text is NFKC-normalised, runs of white space become one, and each word starts with the mark `▁`.
Words are segmented on their own, so a text's tokens are the tokens of its words.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from portal.gateway.local.weights import MAX_TOKENS, Vocabulary, open_weights

PASSAGE = "passage: "
QUERY = "query: "

_MARK = "▁"
_SPACE = re.compile(r"\s+")
_WORD = re.compile(f"{_MARK}?[^{_MARK}]*")
_UNKNOWN_PENALTY = 10.0  # as in SentencePiece: an unknown character costs this more than the rarest piece
_WORDS_KEPT = 20_000
_LONGEST_KEPT_WORD = 24
_SPECIAL = re.compile(r"<(?:s|/s|pad|unk|mask)>")

Span = tuple[int, int]


class Tokenizer:
    """Splits text into the pieces of a vocabulary whose log probabilities have the greatest sum."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Written out in a document, "</s>" is text and not the end of the input.
        ids = {piece: i for i, piece in enumerate(vocabulary.pieces) if piece and not _SPECIAL.fullmatch(piece)}
        longest: dict[str, int] = {}
        for piece in ids:
            longest[piece[0]] = max(longest.get(piece[0], 0), len(piece))
        self.begin = vocabulary.begin
        self.end = vocabulary.end
        self.unknown = vocabulary.unknown
        self._ids = ids
        self._longest = longest
        self._scores = array("d", vocabulary.scores)
        self._unknown_score = min(vocabulary.scores) - _UNKNOWN_PENALTY
        self._kept_words = lru_cache(maxsize=_WORDS_KEPT)(self._pieces)

    def ids(self, text: str) -> list[int]:
        """Token ids of `text`, without the special tokens at both ends."""
        ids: list[int] = []
        for word in _words(_marked(unicodedata.normalize("NFKC", text))):
            ids.extend(piece for piece, _ in self._segment(word))
        return ids

    def count(self, text: str) -> int:
        return sum(len(self._segment(word)) for word in _words(_marked(unicodedata.normalize("NFKC", text))))

    def spans(self, text: str) -> list[Span]:
        """Start and end in `text` of each token, in order; white space belongs to the word after it."""
        normal, origins = _normalised_with_origins(text)
        spans: list[Span] = []
        at = 0
        for word in _words(normal):
            for _, length in self._segment(word):
                spans.append((origins[at][0], origins[at + length - 1][1]))
                at += length
        return spans

    def _segment(self, word: str) -> tuple[tuple[int, int], ...]:
        return self._kept_words(word) if len(word) <= _LONGEST_KEPT_WORD else self._pieces(word)

    def _pieces(self, word: str) -> tuple[tuple[int, int], ...]:
        """(id, length in characters) of each piece; neighbouring unknown characters are one piece."""
        ids, scores, longest = self._ids, self._scores, self._longest
        size = len(word)
        best = [0.0] + [-1e300] * size
        start_of = [0] * (size + 1)
        piece_of = [0] * (size + 1)
        for start in range(size):
            reached = best[start]
            known = False
            for end in range(start + 1, min(start + longest.get(word[start], 0), size) + 1):
                piece = ids.get(word[start:end])
                if piece is None:
                    continue
                known = known or end == start + 1
                score = reached + scores[piece]
                if score > best[end]:
                    best[end], start_of[end], piece_of[end] = score, start, piece
            if not known and reached + self._unknown_score > best[start + 1]:
                best[start + 1] = reached + self._unknown_score
                start_of[start + 1], piece_of[start + 1] = start, self.unknown
        return self._walk_back(start_of, piece_of)

    def _walk_back(self, start_of: list[int], piece_of: list[int]) -> tuple[tuple[int, int], ...]:
        pieces: list[tuple[int, int]] = []
        end = len(start_of) - 1
        while end > 0:
            start, piece = start_of[end], piece_of[end]
            if piece == self.unknown and pieces and pieces[-1][0] == piece:
                pieces[-1] = (piece, pieces[-1][1] + end - start)
            else:
                pieces.append((piece, end - start))
            end = start
        return tuple(reversed(pieces))


class E5TokenCounter:
    """Counts tokens as the local model sees a passage: its prefix and the two special tokens included."""

    max_tokens = MAX_TOKENS

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer or shared_tokenizer()
        self.overhead = 2 + self._tokenizer.count(PASSAGE.rstrip())

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, also beyond `max_tokens`, where the model would cut."""
        overhead, count = self.overhead, self._tokenizer.count
        # The prefix ends with the space that the text's first word takes as its mark.
        return [overhead + count(text or " ") for text in texts]

    def spans(self, text: str) -> list[Span]:
        """Start and end of each token of `text` itself: `count([text]) == [len(spans) + overhead]`."""
        return self._tokenizer.spans(text or " ")


@cache
def shared_tokenizer() -> Tokenizer:
    """One per process; 50 MB, so loaded at first use. Raises `Unavailable` as `open_weights` does."""
    return Tokenizer(open_weights().vocabulary())


def _marked(normal: str) -> str:
    marked = _SPACE.sub(_MARK, normal)
    return marked if marked.startswith(_MARK) else _MARK + marked


def _words(marked: str) -> Iterator[str]:
    """The words of `marked`, each with its mark."""
    return (word for word in _WORD.findall(marked) if word)


def _normalised_with_origins(text: str) -> tuple[str, list[Span]]:
    """The marked text and, for each of its characters, start and end of what it came from in `text`."""
    characters: list[str] = []
    origins: list[Span] = []
    in_space = False
    for start, end in _clusters(text):
        for character in unicodedata.normalize("NFKC", text[start:end]):
            is_space = _SPACE.match(character) is not None
            if not (is_space and in_space):
                characters.append(_MARK if is_space else character)
                origins.append((start, end))
            in_space = is_space
    if not characters or characters[0] != _MARK:
        characters.insert(0, _MARK)
        origins.insert(0, (0, 0))
    return "".join(characters), origins


def _clusters(text: str) -> Iterator[Span]:
    """Stretches that NFKC maps on their own: a character with the marks and jamo that may fuse with it."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not _fuses(text[at]):
            if at > start:
                yield start, at
            start = at


def _fuses(character: str) -> bool:
    """Whether NFKC may melt this into the character before it: combining marks, Hangul vowels and finals."""
    if character < "\u0300":
        return False
    first = unicodedata.normalize("NFKC", character)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
