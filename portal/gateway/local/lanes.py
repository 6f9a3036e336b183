"""Who is next at the model: queries before passages, callers in turn.

A worker takes one text at a time, so a query waits at most for the text that is being worked on,
never for a batch, and a small batch is not held up by a large one.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, Literal, TypeVar

from portal.kernel.errors import TooMany, Unavailable

logger = logging.getLogger(__name__)

Lane = Literal["query", "passage"]
LANES: tuple[Lane, ...] = ("query", "passage")  # the first that has work is served

Result = TypeVar("Result")


class _Batch(Generic[Result]):
    """The texts of one request; answered when the last of them is done."""

    def __init__(self, lane: Lane, texts: Sequence[str]) -> None:
        self.lane = lane
        self.texts = texts
        self.answer: Future[list[Result]] = Future()
        self._results: dict[int, Result] = {}
        self._next = 0

    def take(self) -> int:
        self._next += 1
        return self._next - 1

    @property
    def waiting(self) -> int:
        return len(self.texts) - self._next

    def put(self, index: int, result: Result) -> None:
        self._results[index] = result
        if len(self._results) == len(self.texts) and self._may_answer():
            self.answer.set_result([self._results[i] for i in range(len(self.texts))])

    def fail(self, error: BaseException) -> None:
        if self._may_answer():
            self.answer.set_exception(error)

    def _may_answer(self) -> bool:
        return not self.answer.done() and self.answer.set_running_or_notify_cancel()


class Lanes(Generic[Result]):
    """Worker threads before which two lanes wait. `work` is called with one text and its lane.

    `limits` is the greatest number of waiting texts in each lane.
    """

    def __init__(self, work: Callable[[str, Lane], Result], *, threads: int, limits: dict[Lane, int]) -> None:
        self._work = work
        self._limits = limits
        self._lanes: dict[Lane, deque[_Batch[Result]]] = {lane: deque() for lane in LANES}
        self._changed = threading.Condition()
        self._closed = False
        for number in range(threads):
            threading.Thread(target=self._serve, name=f"embedding-{number}", daemon=True).start()

    def submit(self, texts: Sequence[str], lane: Lane) -> Future[list[Result]]:
        """Queue a request; its result has one entry a text, in order. Cancel the future to withdraw it.

        Raises `TooMany` when the lane is full and `Unavailable` after `close`.
        """
        batch: _Batch[Result] = _Batch(lane, texts)
        with self._changed:
            if self._closed:
                raise Unavailable("The embedding server is stopping.", code="embedding_unavailable")
            if self.waiting(lane) + len(texts) > self._limits[lane]:
                raise TooMany("The embedding server has too much to do.", code="embedding_busy", retry_after=1)
            self._lanes[lane].append(batch)
            self._changed.notify_all()
        return batch.answer

    def waiting(self, lane: Lane) -> int:
        """Number of texts that no worker has taken yet."""
        with self._changed:
            return sum(batch.waiting for batch in self._lanes[lane] if not batch.answer.cancelled())

    def close(self) -> None:
        """Let the texts at work finish and fail what waits."""
        with self._changed:
            self._closed = True
            left = [batch for lane in LANES for batch in self._lanes[lane]]
            for lane in LANES:
                self._lanes[lane].clear()
            for batch in left:
                batch.fail(Unavailable("The embedding server is stopping.", code="embedding_unavailable"))
            self._changed.notify_all()

    def _serve(self) -> None:
        while (taken := self._take()) is not None:
            batch, index = taken
            try:
                result = self._work(batch.texts[index], batch.lane)
            except Exception as error:  # noqa: BLE001  (the edge of a thread: the asker gets it)
                logger.warning("a text could not be embedded: %s", type(error).__name__)
                with self._changed:
                    batch.fail(error)
            else:
                with self._changed:
                    batch.put(index, result)

    def _take(self) -> tuple[_Batch[Result], int] | None:
        with self._changed:
            while not self._closed:
                for lane in LANES:
                    if taken := self._next_of(self._lanes[lane]):
                        return taken
                self._changed.wait()
            return None

    @staticmethod
    def _next_of(lane: deque[_Batch[Result]]) -> tuple[_Batch[Result], int] | None:
        while lane:
            batch = lane.popleft()
            if batch.answer.done():  # withdrawn, or failed by one of its texts
                continue
            index = batch.take()
            if batch.waiting:
                lane.append(batch)
            return batch, index
        return None
