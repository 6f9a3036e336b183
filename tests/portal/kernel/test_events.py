"""Live events: sent on commit, numbered without gaps, replayed while they are kept."""

from __future__ import annotations

import threading
import uuid

import pytest
import redis
from django.conf import settings
from django.db import transaction

from portal.kernel import events


@pytest.fixture
def topic() -> str:
    return f"base:{uuid.uuid4().hex[:16]}"


def happen(topic: str, *names: str) -> None:
    for name in names:
        events._send(topic, {"type": name})


def test_what_was_missed_is_replayed_in_order(topic: str) -> None:
    happen(topic, "one", "two", "three")
    assert events.latest_number(topic) == 3
    frames = events.missed(topic, 1)
    assert frames is not None
    assert [(frame["seq"], frame["type"], frame["topic"]) for frame in frames] == [
        (2, "two", topic),
        (3, "three", topic),
    ]
    assert events.missed(topic, 3) == []
    assert [frame["seq"] for frame in events.missed(topic, 0) or []] == [1, 2, 3]


def test_what_is_no_longer_kept_means_starting_anew(topic: str) -> None:
    sent = events.KEPT + 150  # Redis forgets them by the hundred
    happen(topic, *(["x"] * sent))
    assert events.missed(topic, 1) is None
    assert [frame["seq"] for frame in events.missed(topic, sent - 3) or []] == [sent - 2, sent - 1, sent]
    events.client().delete(f"events:{topic}")
    assert events.missed(topic, sent - 3) is None
    happen(topic, "after")
    assert events.latest_number(topic) == sent + 1


def test_a_number_from_another_time_means_starting_anew(topic: str) -> None:
    assert events.missed(topic, 5) is None
    assert events.missed(topic, 0) == []


def test_streams_and_counters_do_not_stay_for_ever(topic: str) -> None:
    happen(topic, "one")
    assert 0 < int(events.client().ttl(f"events:{topic}")) <= events.TTL_SECONDS
    assert int(events.client().ttl(f"events:{topic}:seq")) > events.TTL_SECONDS


def test_senders_at_once_lose_no_event(topic: str) -> None:
    start = threading.Barrier(6)

    def send() -> None:
        start.wait()
        happen(topic, *(["x"] * 20))

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [frame["seq"] for frame in events.missed(topic, 0) or []] == list(range(1, 121))


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_of_what_is_rolled_back(topic: str) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        events.publish(topic, {"type": "never"})
        raise RuntimeError
    with transaction.atomic():
        events.publish(topic, {"type": "done"})
        assert events.latest_number(topic) == 0
    assert [frame["type"] for frame in events.missed(topic, 0) or []] == ["done"]


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_is_away_fails_nobody(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_client", None)
    monkeypatch.setattr(settings, "REDIS_URL", "unix:///nonexistent/socket")
    with transaction.atomic():
        events.publish(topic, {"type": "lost"})
    with pytest.raises(redis.RedisError):
        events.latest_number(topic)


def test_group_names_hold_only_what_the_layer_allows() -> None:
    assert events.group_name("base:7x_é") == "events.base.7x.."
