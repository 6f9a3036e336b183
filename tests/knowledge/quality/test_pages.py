from __future__ import annotations

import pytest
from django.test import Client

from knowledge import base_settings, bases
from knowledge.models import EvaluationRun, KnowledgeBase
from knowledge.pages.charts import chart, scale
from knowledge.quality import cases
from knowledge.quality.cases import Target
from portal.kernel.models import User
from tests.support.people import World, indexed


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def guarded(world: World) -> KnowledgeBase:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "leave.md", "# Leave\n\nTen days of annual leave in a year.\n")
    cases.add(alice, world.base, "How much annual leave?", [Target(document)])
    values = {"gate": "block", "measure": "mrr@10", "tolerance": 0.02, "unanswered_below": 0.5}
    return bases.save_settings(alice, world.base, "quality", values)


def test_the_settings_page_leads_to_what_was_held_and_the_decision_is_carried_out(
    world: World, guarded: KnowledgeBase
) -> None:
    client = browser(world.alice)
    searching = base_settings.read(guarded.config).searching.model_dump(mode="json")
    form = {name: str(value) for name, value in searching.items() if value is not False}
    answer = client.post(
        f"/bases/{guarded.uid}/settings/",
        {**form, "section": "searching", "version": str(guarded.config_version), "threshold": "1"},
    )
    run = EvaluationRun.objects.get(base=guarded)
    assert answer.headers["Location"] == f"/bases/{guarded.uid}/evaluation/{run.uid}/"
    page = client.get(answer.headers["Location"]).content.decode()
    assert "Save anyway" in page and "threshold" in page
    client.post(
        f"/bases/{guarded.uid}/evaluation/{run.uid}/decide/",
        {"decision": "save", "reason": "Weak hits confuse people."},
    )
    guarded.refresh_from_db()
    assert base_settings.read(guarded.config).searching.threshold == 1


def test_the_api_says_that_a_change_is_held(world: World, guarded: KnowledgeBase) -> None:
    searching = base_settings.read(guarded.config).searching.model_dump(mode="json")
    body = {"values": {**searching, "threshold": 1.0}, "version": guarded.config_version}
    answer = browser(world.alice).put(f"/api/v1/bases/{guarded.uid}/settings/searching/", body, "application/json")
    assert answer.status_code == 202 and answer.json()["state"] == "held"
    run = answer.json()["run"]
    shown = browser(world.alice).get(f"/api/v1/evaluations/{run}/").json()
    assert shown["change"]["verdict"] == "worse" and shown["change"]["fall"] == 1.0
    done = browser(world.alice).post(f"/api/v1/evaluations/{run}/decide/", {"decision": "drop"}, "application/json")
    assert done.json()["change"]["verdict"] == "dropped"


def test_preferences_say_what_becomes_of_questions(world: World) -> None:
    client = browser(world.bob)
    assert "What I ask" in client.get("/account/preferences/").content.decode()
    client.post("/account/preferences/", {"language": "en", "theme": "auto", "question_log": "off"})
    world.bob.refresh_from_db()
    assert world.bob.question_log == "off"


@pytest.mark.parametrize(("least", "most"), [(0.0, 1.0), (0.667, 0.667), (0.97, 1.0), (0.0, 0.0), (0.41, 0.43)])
def test_the_scale_of_shares_holds_all_values_and_ends_at_one(least: float, most: float) -> None:
    low, high, step = scale(least, most, share=True)
    assert low <= least and most <= high <= 1 and step > 0


def test_a_run_that_lacks_a_series_leaves_a_gap(world: World) -> None:
    from django.utils import timezone

    now = timezone.now()
    points = [(now, {"a": 0.5}), (now, {"b": 0.5}), (now, {"a": 0.6}), (now, {"a": 0.7})]
    drawn = chart("recall@5", "", ["a", "b", "nothing"], points)
    assert drawn is not None
    assert [(series.name, len(series.dots), len(series.paths)) for series in drawn.series] == [("a", 3, 1), ("b", 1, 0)]
    assert drawn.rows[1][1] == ("—", "0.50")
