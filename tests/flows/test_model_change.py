"""A base changes its embedding model under real workers, and every search meanwhile finds what is there."""

from __future__ import annotations

import pytest
from django.db.models import Count

from knowledge import background, model_changes
from knowledge.models import ChunkVector, ModelChange, Revision
from knowledge.retrieval import MODES, RetrievalRequest, retrieve
from knowledge.verification import verify
from portal.gateway.embedding import space_of
from portal.gateway.models import ModelEndpoint
from tests.support.people import World, indexed
from tests.support.running import until, worker
from tests.support.slow_model import SteppedProvider, rules, use

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

CHUNKS = 400


def endpoint_of(provider: SteppedProvider) -> ModelEndpoint:
    endpoint = ModelEndpoint.objects.create(
        name="Next",
        kind=ModelEndpoint.Kind.EMBEDDING,
        provider=ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        model_name="next",
        base_url=provider.url,
        timeout_seconds=60,
    )
    space_of(endpoint)
    return endpoint


def found(world: World) -> set[str]:
    """The modes in which the passage that was asked for is found first, none of them with a warning."""
    bob = world.principal(world.bob)
    right: set[str] = set()
    for mode in MODES:
        result = retrieve(bob, RetrievalRequest("rule 17 form 119", base_uids=(world.base.uid,), mode=mode))
        assert not result.warnings
        if result.hits:
            right.add(mode)
    return right


def counts(revision: Revision) -> dict[int, int]:
    rows = ChunkVector.objects.filter(revision=revision).values_list("space_id").annotate(Count("id")).order_by()
    return dict(rows)


def test_a_base_is_searched_whole_while_workers_change_its_model(
    world: World, provider: SteppedProvider, environment: dict[str, str]
) -> None:
    use(provider, world.base)
    revision = indexed(world.principal(world.alice), world.base, "rules.md", rules(CHUNKS)).active_revision
    assert revision is not None
    (old,) = counts(revision)
    with SteppedProvider() as following, worker(environment, name="light", queue="light"):
        other = endpoint_of(following)
        following.hold_after(2)
        change = model_changes.start(world.principal(world.alice), world.base, other.uid)
        until(lambda: following.waiting, "the worker stands before its third batch")
        assert found(world) == set(MODES)
        until(lambda: counts(revision).get(other.space_id or 0, 0) >= 64, "some vectors of both models are there")
        assert counts(revision)[old] == CHUNKS
        assert found(world) == set(MODES)
        following.release()

        def ended() -> bool:
            assert found(world) == set(MODES)
            change.refresh_from_db()
            if change.status == ModelChange.Status.RUNNING and change.heartbeat_at is None:
                background.sweep()
            return change.status == ModelChange.Status.DONE

        until(ended, "the change is done")
        world.base.refresh_from_db()
        assert world.base.embedding == other
        assert counts(revision) == {other.space_id: CHUNKS}
        assert found(world) == set(MODES)
    assert all(finding.ok for finding in verify())
