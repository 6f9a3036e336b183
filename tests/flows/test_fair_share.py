"""A small document behind somebody's huge one: searchable while the huge one is still being worked on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from knowledge import bases, lifecycle
from knowledge.models import KnowledgeBase, Revision, Role
from knowledge.retrieval.contract import RetrievalRequest
from knowledge.retrieval.search import retrieve
from tests.support.people import World, put
from tests.support.running import Running, until, worker
from tests.support.slow_model import SteppedProvider, rules, use

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

Status = Revision.Status
HUGE = 10_000


@pytest.fixture(scope="module")
def lone_worker(environment: dict[str, str]) -> Iterator[Running]:
    """One process: the small document can not simply be given to another one."""
    with worker(environment) as running:
        yield running


@pytest.fixture
def bobs(world: World, provider: SteppedProvider) -> KnowledgeBase:
    base = bases.create(world.principal(world.bob), name="Bob's")
    bases.grant(world.principal(world.bob), base, Role.VIEWER, user=world.alice)
    use(provider, world.base)
    KnowledgeBase.objects.filter(pk=base.pk).update(embedding=KnowledgeBase.objects.get(pk=world.base.pk).embedding_id)
    base.refresh_from_db()
    return base


def seconds_until_searchable(world: World, base: KnowledgeBase, word: str) -> float:
    bob = world.principal(world.bob)
    began = time.monotonic()
    put(bob, base, f"{word}.md", f"# Notice\n\nThe {word} is kept in the blue cupboard.\n")
    request = RetrievalRequest(query=word, base_uids=(base.uid,), mode="keywords")
    until(lambda: retrieve(bob, request).hits, f"{word} is found")
    return time.monotonic() - began


def wait_until(revision: Revision, status: Revision.Status) -> None:
    until(lambda: Revision.objects.filter(pk=revision.pk, status=status).exists(), f"{revision} is {status}")


def test_one_page_behind_a_huge_document_of_somebody_else_is_searchable_at_once(
    world: World, provider: SteppedProvider, bobs: KnowledgeBase, lone_worker: Running
) -> None:
    seconds_until_searchable(world, bobs, "warmup")
    alone = seconds_until_searchable(world, bobs, "xylophone")
    provider.pace = 0.1  # a model of flesh and blood takes ten times as long
    huge = put(world.principal(world.alice), world.base, "huge.md", rules(HUGE)).revision
    assert huge is not None
    behind = {}
    for word, status in (("harmonica", Status.PARSING), ("clarinet", Status.VECTORIZING)):
        wait_until(huge, status)
        behind[status] = seconds_until_searchable(world, bobs, word)
        huge.refresh_from_db()
        assert huge.status in lifecycle.OPEN, "the huge document was ready already: the test says nothing"
    assert max(behind.values()) < alone + 10, f"alone {alone:.1f} s, behind the huge one {behind}"
    lifecycle.cancel(world.principal(world.alice), huge)
    wait_until(huge, Status.CANCELLED)
    assert not retrieve(
        world.principal(world.alice), RetrievalRequest(query="clerk tray", base_uids=(world.base.uid,))
    ).hits
