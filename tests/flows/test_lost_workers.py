"""Workers that die, race or sleep: a document is worked on by one, written once, and never found in part."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F

from knowledge import lifecycle, schedule
from knowledge.ingestion import pipeline
from knowledge.ingestion.embed import BATCH
from knowledge.models import Attempt, Chunk, ChunkVector, Revision
from knowledge.retrieval.contract import MODES, RetrievalRequest
from knowledge.retrieval.search import retrieve
from knowledge.tasks import send_wake_up
from tests.support.people import World, put
from tests.support.running import Running, beat, until, worker
from tests.support.slow_model import SteppedProvider, rules, use

pytestmark = [
    pytest.mark.flow,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(sys.platform != "linux", reason="finds a worker's children through /proc"),
]

Status = Revision.Status
CHUNKS = 2_000


@pytest.fixture(scope="module")
def pair(environment: dict[str, str]) -> Iterator[tuple[Running, Running]]:
    """Two workers on one queue."""
    with worker(environment, name="one") as one, worker(environment, name="two") as two:
        yield one, two


def upload(world: World, chunks: int = CHUNKS) -> Revision:
    revision = put(world.principal(world.alice), world.base, "rules.md", rules(chunks)).revision
    assert revision is not None
    return revision


def state(revision: Revision) -> Revision:
    revision.refresh_from_db()
    return revision


def vectors(revision: Revision) -> set[int]:
    return set(ChunkVector.objects.filter(revision=revision).values_list("pk", flat=True))


def found(world: World) -> set[str]:
    """The modes in which a section of the document is found."""
    alice = world.principal(world.alice)
    requests = {mode: RetrievalRequest(query="rule 17 form", base_uids=(world.base.uid,), mode=mode) for mode in MODES}
    return {mode for mode, request in requests.items() if retrieve(alice, request).hits}


def assert_whole(revision: Revision, chunks: int) -> None:
    """Each leaf stands there once and has one vector."""
    ordinals = Chunk.objects.filter(revision=revision, level="leaf").values_list("ordinal", flat=True)
    assert sorted(ordinals) == list(range(chunks))
    given = Counter(ChunkVector.objects.filter(revision=revision).values_list("chunk__ordinal", flat=True))
    assert given == Counter(range(chunks))
    assert revision.chunk_count == chunks


def process_of(claimed_by: str) -> int:
    return int(claimed_by.partition(":")[2])


def holder(revision: Revision, pair: tuple[Running, Running]) -> Running:
    """The worker of the pair whose child holds the claim."""
    return next(running for running in pair if process_of(state(revision).claimed_by) in children_of(running))


def children_of(running: Running) -> list[int]:
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text("ascii")
    return [int(number) for number in children.split()]


def begin_now(revision: Revision) -> None:
    """Spare the test the pause before another attempt, and wake a worker as the clock does."""
    Revision.objects.filter(pk=revision.pk).update(not_before=None)
    lifecycle.sweep()


def test_of_two_workers_given_one_document_exactly_one_does_the_work(
    world: World, provider: SteppedProvider, pair: tuple[Running, Running], environment: dict[str, str]
) -> None:
    use(provider, world.base)
    with psycopg.connect(environment["DATABASE_URL"], autocommit=True) as gate:
        gate.execute("SELECT pg_advisory_lock(%s)", [schedule._CLAIM_LOCK])
        revision = upload(world, 200)
        send_wake_up()
        waiting = "SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE wait_event = 'advisory'"
        until(lambda: gate.execute(waiting).fetchone() == (2,), "both workers stand before the claim")
    until(lambda: state(revision).status == Status.INDEXED)
    attempt = Attempt.objects.get(revision=revision)
    assert (attempt.outcome, revision.claim_no, revision.attempts) == (Attempt.Outcome.DONE, 1, 1)
    assert_whole(revision, 200)
    texts = Counter(text for batch in provider.batches for text in batch if "rule" in text)
    assert set(texts.values()) == {1}


def test_a_worker_paused_past_its_claim_writes_nothing_when_it_wakes(
    world: World, provider: SteppedProvider, pair: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(provider, world.base)
    provider.hold_after(3)
    revision = upload(world)
    until(lambda: provider.waiting == 1, "the first worker waits for its fourth batch")
    slept, first = holder(revision, pair), state(revision).claimed_by
    sleeper = process_of(first)
    os.kill(sleeper, signal.SIGSTOP)
    try:
        monkeypatch.setitem(settings.ARCHWAY, "CLAIM_TTL", 1)
        until(lifecycle.sweep, "its silence is noticed")
        monkeypatch.setitem(settings.ARCHWAY, "CLAIM_TTL", 90)
        provider.hold_after(1 + 4)  # the sleeper's answer, and some batches of the other
        begin_now(revision)
        until(lambda: provider.waiting == 1, "the second worker waits in its turn")
        assert state(revision).claimed_by not in {"", first}
        claim, written = revision.claim_no, vectors(revision)
    finally:
        os.kill(sleeper, signal.SIGCONT)
    slept.wait_for(f"claim {claim - 2} was lost")
    assert state(revision).claim_no == claim
    assert vectors(revision) == written
    assert found(world) == set()
    provider.release()
    until(lambda: state(revision).status == Status.INDEXED)
    assert_whole(revision, CHUNKS)
    outcomes = list(Attempt.objects.filter(revision=revision).order_by("id").values_list("outcome", flat=True))
    assert outcomes == [Attempt.Outcome.LOST, Attempt.Outcome.DONE]


class Thief(SteppedProvider):
    """Is away, and only after somebody else has taken the claim."""

    def answer(self, body: dict[str, Any]) -> tuple[int, str]:
        if self.batches:
            Revision.objects.update(claim_no=F("claim_no") + 1)
            connection.close()
            return 503, "{}"
        return super().answer(body)


def test_a_model_that_is_away_after_the_claim_was_lost_is_no_error(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with Thief() as provider:
        use(provider, world.base)
        revision = upload(world, 200)
        claim = lifecycle.claim("slow", revision.pk)
        assert claim is not None
        pipeline.work(claim)
    assert (state(revision).status, revision.claimed_by, revision.not_before) == (Status.VECTORIZING, "slow", None)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_worker_killed_while_vectorising_is_noticed_and_the_work_goes_on_where_it_was(
    world: World, provider: SteppedProvider, pair: tuple[Running, Running], environment: dict[str, str]
) -> None:
    use(provider, world.base)
    provider.hold_after(10)
    revision = upload(world)
    until(lambda: provider.waiting == 1, "ten batches are through")
    until(lambda: len(vectors(revision)) == 10 * BATCH)
    killed = holder(revision, pair)
    killed.child.send(signal.SIGKILL)
    assert killed.child.gone.wait(60)
    assert state(revision).status == Status.VECTORIZING
    assert found(world) == set()
    # The clock and the light worker notice it, without anybody's help.
    impatient = {**environment, "ARCHWAY_CLAIM_TTL": "3"}
    with worker(impatient, name="light", queue="default"), beat(impatient):
        until(lambda: state(revision).status == Status.PENDING, "the claim is given up")
    assert (revision.error_code, revision.claimed_by, revision.not_before is None) == ("worker_timeout", "", False)
    assert found(world) == set()
    provider.release()
    begin_now(revision)
    until(lambda: state(revision).status == Status.INDEXED)
    assert_whole(revision, CHUNKS)
    assert found(world) == set(MODES)
    embedded = sum(len(batch) for batch in provider.batches if "rule" in batch[0])
    assert embedded <= CHUNKS + BATCH  # only the batch that was on its way is asked for twice
    outcomes = list(Attempt.objects.filter(revision=revision).order_by("id").values_list("outcome", flat=True))
    assert outcomes == [Attempt.Outcome.LOST, Attempt.Outcome.DONE]
