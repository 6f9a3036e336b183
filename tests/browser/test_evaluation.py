"""The evaluation of a base in a browser: charts, a run beside its baseline, cases, unanswered questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge import asking, base_settings, bases
from knowledge.models import EvaluationRun, QueryRecord
from knowledge.quality import cases, gate, runs
from knowledge.quality.cases import Target
from knowledge.retrieval import RetrievalRequest
from tests.support.people import World, indexed

HANDBOOK = "# Leave\n\nEmployees have ten days of annual leave in a year.\n"
TRAVEL = "# Travel\n\nTrains are booked in second class, flights only above six hours.\n"


def furnish(world: World) -> EvaluationRun:
    """Cases, two runs, a change that is held, and questions that nothing answers."""
    alice = world.principal(world.alice)
    leave = indexed(alice, world.base, "leave.md", HANDBOOK)
    travel = indexed(alice, world.base, "travel.md", TRAVEL)
    cases.add(alice, world.base, "How much annual leave is there?", [Target(leave)])
    cases.add(alice, world.base, "Which class on trains?", [Target(travel, "booked in second class")])
    cases.add(alice, world.base, "What colour is the roof?", [Target(None, "the roof is green", 2)])
    for label in ("Before the summer", ""):
        run = runs.start(alice, world.base, label=label)
        while runs.work(run.pk):
            pass
    values = {"gate": "block", "measure": "mrr@10", "tolerance": 0.02, "unanswered_below": 0.9}
    base = bases.save_settings(alice, world.base, "quality", values)
    searching = base_settings.read(base.config).searching.model_dump(mode="json")
    gate.save_settings(alice, base, "searching", {**searching, "threshold": 1.0})
    for text in ("Where is the car park?", "where is the car park", "Who feeds the cat?"):
        asking.ask(alice, RetrievalRequest(text, base_uids=(world.base.uid,)), kind=QueryRecord.Kind.ASK)
    return run


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_evaluation_pages_fit_and_show_what_changed(
    people: World, apart: Callable[..., Any], open_browser: Callable[..., Any], width: int, theme: str
) -> None:
    run = apart(furnish, people)
    home = f"/bases/{people.base.uid}/evaluation/"
    page = open_browser(people.alice, width=width, theme=theme)
    seen, drawn = {}, {}
    held = apart(lambda: EvaluationRun.objects.get(purpose="gate").uid)
    case = apart(lambda: run.results.first().case.uid)
    for name, address in {
        "runs": home,
        "run": f"{home}{run.uid}/",
        "case": f"{home}{run.uid}/cases/{case}/",
        "gate": f"{home}{held}/",
        "cases": f"{home}cases/",
        "unanswered": f"{home}unanswered/",
    }.items():
        page.goto(address)
        seen[name] = page.inner_text("main")
        drawn[name] = page.locator("svg.chart__drawing").count()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
    assert "Recall@5" in seen["runs"] and drawn["runs"] == 4
    assert "Not saved" in seen["gate"] and "Save anyway" in seen["gate"]
    assert "car park" in seen["unanswered"]
