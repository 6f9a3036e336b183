"""How often answers were used again: for admins in the API, and on the first page of the admin."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from portal.gateway.reuse import metrics
from portal.kernel import keys
from portal.kernel.models import User
from tests.support.people import World


def with_key(world: World, user: User, *scopes: str) -> Client:
    _, secret = keys.create(world.principal(user), name="k", scopes=scopes)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_an_admin_reads_the_counts_of_the_own_workspace_and_of_no_other(world: World) -> None:
    for outcome in ("hit", "hit", "miss"):
        async_to_sync(metrics.count)(world.workspace.pk, outcome)
    async_to_sync(metrics.count)(world.elsewhere.pk, "away")
    answer = with_key(world, world.admin, "admin").get("/api/v1/kept-answers").json()
    counts = answer["days"][timezone.localdate().isoformat()]
    assert (answer["on"], counts["hit"], counts["miss"], counts["away"]) == (False, 2, 1, 0)


def test_others_neither_read_nor_empty(world: World) -> None:
    bob = with_key(world, world.bob, "chat", "kb:read")
    assert [bob.get("/api/v1/kept-answers").status_code, bob.delete("/api/v1/kept-answers").status_code] == [403, 403]


def test_emptying_says_when_nothing_is_kept_here_or_the_store_is_away(world: World, settings: Settings) -> None:
    admin = with_key(world, world.admin, "admin")
    assert admin.delete("/api/v1/kept-answers").json()["code"] == "cache_off"
    settings.CACHE_REDIS_URL = "redis://127.0.0.1:9/0"
    away = admin.delete("/api/v1/kept-answers")
    assert (away.status_code, away.json()["code"]) == (503, "cache_away")


def test_the_first_page_of_the_admin_shows_the_share_where_answers_are_kept(world: World, settings: Settings) -> None:
    client = Client()
    client.force_login(world.admin)
    assert "Answers used again" not in client.get("/admin/").content.decode()
    settings.CACHE_REDIS_URL = "redis://127.0.0.1:9/0"
    for outcome in ("hit", "hit", "hit", "refused"):
        async_to_sync(metrics.count)(world.workspace.pk, outcome)
    response = client.get("/admin/")
    assert "Answers used again by day" in response.content.decode()
    (card,) = [card for card in response.context["cards"] if str(card["title"]) == "Cache hits (%)"]
    assert card["count"] == 75
