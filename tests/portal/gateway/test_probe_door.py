"""The test of a connection, asked for by a program."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client

from portal.gateway import quotas
from portal.gateway.models import ModelEndpoint, Purpose, Quota, UsageRecord
from portal.gateway.probe import probe
from portal.kernel import keys
from portal.kernel.models import AuditEntry, User
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.models import endpoint as remote
from tests.support.people import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_of(world: World, user: User, endpoint: ModelEndpoint, scope: str = "admin") -> tuple[int, dict[str, object]]:
    _, secret = keys.create(world.principal(user), name="k", scopes=[scope])
    response = Client().post(f"/api/v1/endpoints/{endpoint.uid}/test", headers={"Authorization": f"Bearer {secret}"})
    return response.status_code, response.json()


test_of.__test__ = False  # type: ignore[attr-defined]


def test_a_model_that_answers_says_how_fast_and_what_else_is_there(world: World, models: ModelServer) -> None:
    endpoint = chat_endpoint(models, workspace=world.workspace)
    status, found = test_of(world, world.admin, endpoint)
    assert (status, found["ok"], found["code"]) == (200, True, "")
    assert found["models"]
    assert AuditEntry.objects.filter(action="endpoint.test", actor_id=world.admin.pk).exists()


def test_a_failure_is_a_result_with_the_code_of_its_cause(world: World, models: ModelServer) -> None:
    endpoint = chat_endpoint(models, "demo+fail=401", workspace=world.workspace)
    status, found = test_of(world, world.admin, endpoint)
    assert (status, found["ok"], found["code"]) == (200, False, "model_auth_failed")


def test_only_admins_test_and_only_what_is_their_workspaces(world: World, models: ModelServer) -> None:
    own, shared = chat_endpoint(models, workspace=world.workspace), chat_endpoint(models)
    foreign = chat_endpoint(models, workspace=world.elsewhere)
    assert test_of(world, world.bob, own, "kb:read")[0] == 403
    assert test_of(world, world.admin, shared)[1]["code"] == "operator_only"
    assert test_of(world, world.admin, foreign)[0] == 404
    assert len(models.seen) == 0


@pytest.mark.parametrize("kind", ["chat", "embedding", "rerank"])
def test_a_test_stands_in_the_account_book_of_who_tested(world: World, models: ModelServer, kind: str) -> None:
    endpoint = remote(models, "demo", provider="openai_compatible", kind=kind, workspace=world.workspace)
    probe(world.principal(world.admin), endpoint)
    record = UsageRecord.objects.get()
    assert (record.user, record.purpose, record.outcome) == (world.admin, Purpose.TEST, "ok")
    assert record.tokens_in > 0


def test_a_used_up_quota_stops_the_test_and_says_nothing_of_the_endpoint(world: World, models: ModelServer) -> None:
    endpoint = chat_endpoint(models, workspace=world.workspace)
    admin = world.principal(world.admin)
    assert probe(admin, endpoint).ok
    Quota.objects.create(workspace=world.workspace, subject="workspace", unit="tokens", period="day", limit=Decimal(1))
    quotas.forget_accounts()
    found = probe(admin, endpoint)
    assert found.code == "quota_exceeded"
    endpoint.refresh_from_db()
    assert endpoint.check_code == ""
