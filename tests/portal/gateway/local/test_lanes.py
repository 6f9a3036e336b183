from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from portal.gateway.local.lanes import Lane, Lanes
from portal.kernel.errors import TooMany, Unavailable

WAIT = 10.0


class Gate:
    """Work that waits to be let through, one text at a time, and remembers the order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.begun = threading.Semaphore(0)
        self._allowed = threading.Semaphore(0)

    def work(self, text: str, lane: Lane) -> str:
        self.begun.release()
        self._allowed.acquire()
        if text == "bad":
            raise ValueError(text)
        self.seen.append(text)
        return f"{lane}:{text}"

    def let(self, count: int) -> None:
        self._allowed.release(count)

    def open(self) -> None:
        self._allowed.release(10_000)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def lanes(gate: Gate) -> Iterator[Lanes[str]]:
    lanes = Lanes(gate.work, threads=1, limits={"query": 4, "passage": 8})
    yield lanes
    lanes.close()
    gate.open()


def test_a_query_overtakes_the_batch_that_came_before_it(gate: Gate, lanes: Lanes[str]) -> None:
    batch = lanes.submit(["p1", "p2", "p3"], "passage")
    assert gate.begun.acquire(timeout=WAIT)  # p1 is being worked on
    query = lanes.submit(["q"], "query")
    gate.let(2)
    assert query.result(WAIT) == ["query:q"]
    assert gate.seen == ["p1", "q"]
    assert not batch.done()
    gate.open()
    assert batch.result(WAIT) == ["passage:p1", "passage:p2", "passage:p3"]


def test_two_batches_take_turns(gate: Gate, lanes: Lanes[str]) -> None:
    first = lanes.submit(["a1"], "passage")
    assert gate.begun.acquire(timeout=WAIT)
    large, small = lanes.submit(["b1", "b2", "b3"], "passage"), lanes.submit(["c1"], "passage")
    gate.open()
    for future in (first, large, small):
        future.result(WAIT)
    assert gate.seen == ["a1", "b1", "c1", "b2", "b3"]


def test_a_full_lane_refuses_and_the_other_does_not(gate: Gate, lanes: Lanes[str]) -> None:
    lanes.submit(["p"], "passage")
    assert gate.begun.acquire(timeout=WAIT)
    lanes.submit(["p"] * 8, "passage")
    with pytest.raises(TooMany) as caught:
        lanes.submit(["p"], "passage")
    assert caught.value.retry_after > 0
    assert lanes.submit(["q"], "query") is not None


def test_a_withdrawn_batch_is_not_worked_on_and_frees_its_room(gate: Gate, lanes: Lanes[str]) -> None:
    lanes.submit(["p0"], "passage")
    assert gate.begun.acquire(timeout=WAIT)
    withdrawn = lanes.submit(["x"] * 8, "passage")
    assert withdrawn.cancel()
    assert lanes.waiting("passage") == 0
    after = lanes.submit(["p1"], "passage")
    gate.open()
    assert after.result(WAIT) == ["passage:p1"]
    assert gate.seen == ["p0", "p1"]
    with pytest.raises(CancelledError):
        withdrawn.result(0)


def test_a_text_that_fails_fails_its_own_request_only(gate: Gate, lanes: Lanes[str]) -> None:
    gate.open()
    broken, whole = lanes.submit(["bad", "p"], "passage"), lanes.submit(["q"], "query")
    with pytest.raises(ValueError, match="bad"):
        broken.result(WAIT)
    assert whole.result(WAIT) == ["query:q"]
    assert lanes.submit(["q2"], "query").result(WAIT) == ["query:q2"]


def test_closing_fails_what_waits_and_refuses_what_comes(gate: Gate, lanes: Lanes[str]) -> None:
    lanes.submit(["p"], "passage")
    assert gate.begun.acquire(timeout=WAIT)
    waiting = lanes.submit(["p2"], "passage")
    lanes.close()
    with pytest.raises(Unavailable):
        waiting.result(WAIT)
    with pytest.raises(Unavailable):
        lanes.submit(["p3"], "passage")
