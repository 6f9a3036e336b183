"""An embedding model behind a real provider on loopback that stops when a test says so, mid-way through a document."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from knowledge.models import KnowledgeBase
from portal.gateway.embedding import space_of
from portal.gateway.models import ModelEndpoint
from portal.gateway.sample import SENTENCES
from tests.support.embedding_server import EmbeddingProvider

WIDTH = 32


class SteppedProvider(EmbeddingProvider):
    """A provider whose vectors depend on the text alone, and which can hold back batches of passages.

    Questions (one text a request) always pass: people search while a document is being embedded. So do
    texts that were embedded before: only new work is held.
    """

    def __init__(self) -> None:
        super().__init__(dimensions=WIDTH)
        self._changed = threading.Condition()
        self._passing: int | None = None
        self.waiting = 0
        self.pace = 0.0  # seconds that a batch takes
        self.batches: list[list[str]] = []
        self._seen = set(SENTENCES)  # measuring a space is no work on a document
        self._ended = threading.Event()

    def hold_after(self, batches: int) -> None:
        """Let so many more batches pass; hold back all after them until `release`."""
        with self._changed:
            self._passing = batches
            self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self._passing = None
            self._changed.notify_all()

    def __enter__(self) -> SteppedProvider:
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self.release()
        super().__exit__(*error)

    def vector(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
        vector: list[float] = np.random.default_rng(seed).standard_normal(self.dimensions).tolist()
        return vector

    def answer(self, body: dict[str, Any]) -> tuple[int, str]:
        if len(body["input"]) > 1:
            with self._changed:
                self.waiting += 1
                self._changed.wait_for(lambda: self._may_pass(body["input"]))
                self.waiting -= 1
                self.batches.append(body["input"])
                self._seen.update(body["input"])
            self._ended.wait(self.pace)
        return super().answer(body)

    def _may_pass(self, texts: list[str]) -> bool:
        if self._passing is None or self._seen.issuperset(texts):
            return True
        if self._passing == 0:
            return False
        self._passing -= 1
        return True


def use(provider: SteppedProvider, base: KnowledgeBase) -> ModelEndpoint:
    """Has `base` embed with `provider`; its vector space is measured at once, so that only documents wait for it."""
    return embed_with(provider.url, base)


def embed_with(url: str, base: KnowledgeBase) -> ModelEndpoint:
    """The same for a provider of another process."""
    endpoint = ModelEndpoint.objects.create(
        name=url,
        kind=ModelEndpoint.Kind.EMBEDDING,
        provider=ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        model_name="stepped",
        base_url=url,
        timeout_seconds=60,
    )
    space_of(endpoint)
    KnowledgeBase.objects.filter(pk=base.pk).update(embedding=endpoint)
    base.refresh_from_db()
    return endpoint


def rules(count: int, word: str = "rule") -> str:
    """A Markdown document of `count` short sections, each a passage of one leaf."""
    return "".join(_sections(count, word))


def _sections(count: int, word: str) -> Iterator[str]:
    for number in range(count):
        form = number * 7 % 1009
        yield f"# {word} {number}\n\nUnder {word} {number} the clerk files form {form} in tray {number}.\n\n"
