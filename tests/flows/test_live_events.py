"""The websocket of the pages, over a real web process: who may follow what, and what happens when that changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client
from django.utils import timezone
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from channels_app.events import SECONDS_A_CHECK_HOLDS
from knowledge import bases
from knowledge.models import Grant
from portal.kernel import events, keys, people
from portal.kernel.models import ApiKey, User
from tests.support.people import World
from tests.support.running import PATIENCE, Web, web

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def site(environment: dict[str, str]) -> Iterator[Web]:
    with web(environment) as running:
        yield running


@pytest.fixture(autouse=True)
async def closed_connections() -> AsyncIterator[None]:
    """What the tests ask of the database from another thread must not keep it open."""
    yield
    await sync_to_async(connections.close_all)()


def cookie_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())


def key_of(world: World, user: User) -> str:
    return keys.create(world.principal(user), name="socket", scopes=["kb:read"])[1]


@asynccontextmanager
async def opened(site: Web, **headers: str) -> AsyncIterator[ClientConnection]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    origin = Origin(named.pop("Origin")) if "Origin" in named else None
    async with connect(
        site.socket_url, additional_headers=named, origin=origin, open_timeout=PATIENCE, proxy=None
    ) as connection:
        yield connection


@asynccontextmanager
async def signed_in(site: Web, user: User) -> AsyncIterator[ClientConnection]:
    cookie = await sync_to_async(cookie_of)(user)
    async with opened(site, Cookie=cookie, Origin=site.url) as connection:
        yield connection


async def said(connection: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(await connection.recv())
    return frame


async def subscribed(connection: ClientConnection, topic: str, after: int | None = None) -> dict[str, Any]:
    asked: dict[str, Any] = {"subscribe": topic} if after is None else {"subscribe": topic, "after": after}
    await connection.send(json.dumps(asked))
    return await said(connection)


@sync_to_async
def happens(topic: str, what: str) -> None:
    events.publish(topic, {"type": "test", "what": what})


async def test_a_viewer_follows_their_base_and_gets_what_happens_there(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    async with signed_in(site, world.bob) as bob:
        answer = await subscribed(bob, topic)
        assert (answer["type"], answer["topic"]) == ("subscribed", topic)
        await happens(topic, "first")
        await happens(topic, "second")
        frames = [await said(bob), await said(bob)]
    assert [frame["what"] for frame in frames] == ["first", "second"]
    assert [frame["seq"] for frame in frames] == [answer["seq"] + 1, answer["seq"] + 2]


@pytest.mark.parametrize("name", ["mallory", "eve"])
async def test_foreign_and_missing_topics_are_denied_alike(site: Web, world: World, name: str) -> None:
    topics = [f"base:{world.base.uid}", "base:zzzzzzzzzzzz", f"user:{world.alice.uid}", "user:zzz", "nonsense", ""]
    async with signed_in(site, getattr(world, name)) as stranger:
        for topic in topics:
            assert await subscribed(stranger, topic) == {"type": "denied", "topic": topic}
        await happens(f"base:{world.base.uid}", "secret")
        own = f"user:{getattr(world, name).uid}"
        assert (await subscribed(stranger, own))["type"] == "subscribed"


async def test_a_revoked_grant_stops_the_frames_before_the_next_one(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"

    def revoke() -> None:
        bases.revoke(world.principal(world.alice), world.base, Grant.objects.get(base=world.base, user=world.bob))

    async with signed_in(site, world.bob) as bob:
        await subscribed(bob, topic)
        await happens(topic, "seen")
        assert (await said(bob))["what"] == "seen"
        await sync_to_async(revoke)()
        await happens(topic, "unseen")
        assert await said(bob) == {"type": "denied", "topic": topic}
        await happens(topic, "unseen too")
        own = await subscribed(bob, f"user:{world.bob.uid}")
        assert own["type"] == "subscribed"  # nothing of the base came in between


async def test_a_socket_of_somebody_who_was_locked_out_gets_nothing_more(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    async with signed_in(site, world.bob) as bob:
        await subscribed(bob, topic)
        await sync_to_async(people.set_active)(None, world.bob, False)
        await happens(topic, "unseen")
        assert await said(bob) == {"type": "denied", "topic": topic}
        assert await subscribed(bob, topic) == {"type": "denied", "topic": topic}


async def test_who_comes_back_is_told_what_they_missed(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    async with signed_in(site, world.bob) as bob:
        await subscribed(bob, topic)
        await happens(topic, "before")
        last = (await said(bob))["seq"]
    await happens(topic, "while away")
    await happens(topic, "still away")
    async with signed_in(site, world.bob) as bob:
        answer = await subscribed(bob, topic, after=last)
        assert answer == {"type": "subscribed", "topic": topic, "seq": last + 2}
        assert [(await said(bob))["what"], (await said(bob))["what"]] == ["while away", "still away"]


async def test_who_missed_more_than_is_kept_is_told_to_start_anew(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    await happens(topic, "long ago")
    await sync_to_async(events.client().delete)(f"events:{topic}")
    async with signed_in(site, world.bob) as bob:
        assert (await subscribed(bob, topic, after=0))["type"] == "subscribed"
        assert await said(bob) == {"type": "reset", "topic": topic}
        await happens(topic, "now")
        assert (await said(bob))["what"] == "now"


async def test_an_unsubscribed_topic_is_silent(site: Web, world: World) -> None:
    topic, own = f"base:{world.base.uid}", f"user:{world.bob.uid}"
    async with signed_in(site, world.bob) as bob:
        await subscribed(bob, topic)
        await bob.send(json.dumps({"unsubscribe": topic}))
        await subscribed(bob, own)
        await happens(topic, "unheard")
        await happens(own, "heard")
        assert (await said(bob))["what"] == "heard"


async def test_a_key_opens_a_socket_without_any_origin(site: Web, world: World) -> None:
    secret = await sync_to_async(key_of)(world, world.bob)
    for headers in ({"Authorization": f"Bearer {secret}"}, {"X_API_Key": secret}):
        async with opened(site, **headers) as bob:
            assert (await subscribed(bob, f"base:{world.base.uid}"))["type"] == "subscribed"


async def test_a_socket_opened_with_a_key_ends_with_the_key(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    principal = await sync_to_async(world.principal)(world.bob)
    key, secret = await sync_to_async(keys.create)(principal, name="socket", scopes=["kb:read"])
    async with opened(site, X_API_Key=secret) as bob:
        await subscribed(bob, topic)
        await sync_to_async(keys.revoke)(principal, key)
        await happens(topic, "unseen")
        assert await said(bob) == {"type": "denied", "topic": topic}


async def refused(site: Web, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with opened(site, **headers):
            pass
    return caught.value.response.status_code


async def test_pages_of_others_strangers_and_bare_cookies_are_refused(site: Web, world: World) -> None:
    cookie = await sync_to_async(cookie_of)(world.bob)
    assert await refused(site, Cookie=cookie, Origin="http://evil.example") == 403
    assert await refused(site, Cookie=cookie, Origin="null") == 403
    assert await refused(site, Cookie=cookie) == 403
    assert await refused(site) == 403
    assert await refused(site, X_API_Key="kb_unknown") == 403
    assert await refused(site, X_API_Key="kb_unknown", Cookie=cookie, Origin=site.url) == 403


async def test_frames_that_are_no_questions_do_no_harm(site: Web, world: World) -> None:
    async with signed_in(site, world.bob) as bob:
        for frame in ("[]", "{}", '{"subscribe": 7}', '{"unsubscribe": "base:none"}', "not json", "\x00", "[" * 9_000):
            await bob.send(frame)
        await bob.send(b"\xff\x00")
        for topic in ("base:\ud800", "base:\x00", "base:" + "x" * 500):
            assert (await subscribed(bob, topic))["type"] == "denied"
        assert (await subscribed(bob, f"base:{world.base.uid}"))["type"] == "subscribed"


async def test_a_socket_ends_with_its_session_and_with_what_ends_by_the_clock(site: Web, world: World) -> None:
    topic = f"base:{world.base.uid}"
    cookie = await sync_to_async(cookie_of)(world.bob)
    secret = await sync_to_async(key_of)(world, world.bob)
    async with opened(site, Cookie=cookie, Origin=site.url) as browser, opened(site, X_API_Key=secret) as program:
        for connection in (browser, program):
            assert (await subscribed(connection, topic))["type"] == "subscribed"
        await sync_to_async(Session.objects.all().delete)()
        await sync_to_async(ApiKey.objects.update)(expires_at=timezone.now())
        await asyncio.sleep(SECONDS_A_CHECK_HOLDS + 0.1)
        await happens(topic, "not for them any more")
        for connection in (browser, program):
            assert (await said(connection))["type"] == "denied"
