"""A web source kept by a real worker: its wake-ups, its pauses between two pages, and going on after a kill."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pytest
from django.utils import timezone

from knowledge.models import Document, SourceRun
from knowledge.sources import runs, verbs
from tests.support.people import World
from tests.support.running import until, worker
from tests.support.website import website

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_run_goes_page_by_page_through_wake_ups_and_on_after_its_worker_was_killed(
    environment: dict[str, str], world: World
) -> None:
    with website() as site:
        site.page("/", "Start", "Where it all begins.", *[f"/p{number}.html" for number in range(4)])
        for number in range(4):
            site.page(f"/p{number}.html", f"Page {number}", f"Text of page number {number}.")
        with worker(environment, name="first", queue="default", children=2) as first:
            source = verbs.create(world.principal(world.alice), world.base, url=site.url(), kind="site", depth=1)
            until(lambda: Document.objects.filter(base=world.base).count() >= 1, "a first page has come in")
            os.kill(first.pid, signal.SIGKILL)
        with worker(environment, name="second", queue="default", children=2):
            # What beat does every ten seconds, once the claim's time is over.
            SourceRun.objects.update(heartbeat_at=timezone.now() - timedelta(hours=1))
            runs.sweep()
            run = until(lambda: _ended(source.runs.get()), "the run has ended")
        assert run.status == "done"
        assert run.counts["new"] == 5
        assert Document.objects.filter(base=world.base).count() == 5
        assert site.most_at_once == 1


def _ended(run: SourceRun) -> SourceRun | None:
    return run if run.status not in SourceRun.OPEN else None
