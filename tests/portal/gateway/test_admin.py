"""Endpoints, quotas and the account book in the admin: for whom, and what the button says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from portal.gateway.models import EndpointFallback, ModelEndpoint, Purpose, Quota, UsageDay, UsageRecord
from portal.kernel.models import AuditEntry, User
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint, endpoint
from tests.support.people import World


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator(db: None) -> User:
    return User.objects.create_superuser("olga", password="correct-horse-battery")


def said(response: object) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))  # type: ignore[attr-defined]


def try_out(client: Client, row: ModelEndpoint) -> str:
    response = client.post(reverse("admin:gateway_modelendpoint_try", args=[row.pk]))
    assert response.status_code == 302
    return said(response)


def test_the_button_says_how_fast_the_model_answers_and_which_are_there(models: ModelServer, world: World) -> None:
    row = chat_endpoint(models, "demo+tokens=1", workspace=world.workspace)
    text = try_out(signed_in(world.admin), row)
    assert "The model answers." in text
    assert "ms" in text
    assert "Models there (1): demo" in text
    row.refresh_from_db()
    assert row.check_code == ""
    assert row.check_milliseconds is not None
    assert UsageRecord.objects.get().purpose == Purpose.TEST
    assert AuditEntry.objects.filter(action="endpoint.test").exists()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "doubao", "wenxin", "yuanbao", "archway"])
def test_every_provider_can_be_tried(models: ModelServer, world: World, provider: str) -> None:
    row = chat_endpoint(models, "demo+tokens=1", provider=provider, workspace=world.workspace)
    assert "Models there (1): demo" in try_out(signed_in(world.admin), row)


@pytest.mark.parametrize(
    ("provider", "kind"),
    [
        ("openai_compatible", "embedding"), ("gemini", "embedding"), ("doubao", "embedding"),
        ("openai_compatible", "rerank"), ("cohere", "rerank"), ("jina", "rerank"), ("tei", "rerank"),
    ],
)  # fmt: skip
def test_embedding_and_rerank_can_be_tried_too(models: ModelServer, world: World, provider: str, kind: str) -> None:
    row = endpoint(models, "demo", provider=provider, kind=kind, workspace=world.workspace)
    assert "The model answers." in try_out(signed_in(world.admin), row)


@pytest.mark.parametrize(
    ("model", "code", "more"),
    [
        ("demo+fail=401", "model_auth_failed", ""),
        ("demo+fail=402", "model_account_empty", ""),
        ("demp", "model_not_found", "Did you mean demo?"),
    ],
)
def test_the_button_says_what_is_wrong(models: ModelServer, world: World, model: str, code: str, more: str) -> None:
    row = chat_endpoint(models, model, workspace=world.workspace)
    text = try_out(signed_in(world.admin), row)
    assert f"Code: {code}." in text
    assert more in text
    row.refresh_from_db()
    assert row.check_code == code


def test_shared_endpoints_are_tried_by_the_operator_and_foreign_ones_by_nobody(
    models: ModelServer, world: World, operator: User
) -> None:
    shared, theirs = chat_endpoint(models), chat_endpoint(models, "demo+tag=b", workspace=world.elsewhere)
    client = signed_in(world.admin)
    for row in (shared, theirs):
        assert client.post(reverse("admin:gateway_modelendpoint_try", args=[row.pk])).status_code == 404
    assert models.seen == []
    assert "The model answers." in try_out(signed_in(operator), shared)
    assert client.get(reverse("admin:gateway_modelendpoint_try", args=[shared.pk])).status_code == 405


def form_of(client: Client, url: str) -> dict[str, object]:
    form = client.get(url).context["adminform"].form
    return {
        name: "" if (value := form[name].value()) is None else value
        for name in form.fields
        if form[name].value() is not False
    }


def test_an_admin_sets_an_endpoint_up_with_its_fallbacks(models: ModelServer, world: World) -> None:
    client = signed_in(world.admin)
    spare = chat_endpoint(models, "demo+tag=spare", workspace=world.workspace)
    url = reverse("admin:gateway_modelendpoint_add")
    given = form_of(client, url) | {
        "name": "Main", "kind": "chat", "provider": "openai_compatible", "model_name": "demo",
        "base_url": models.v1, "fallback_1": spare.pk, "input_price": "2.5",
    }  # fmt: skip
    response = client.post(url, given)
    assert response.status_code == 302, response.context["errors"]
    row = ModelEndpoint.objects.get(name="Main")
    assert (row.workspace, row.input_price) == (world.workspace, Decimal("2.5"))
    assert EndpointFallback.objects.get(endpoint=row).fallback == spare
    url = reverse("admin:gateway_modelendpoint_change", args=[row.pk])
    assert b"Test the connection" in client.get(url).content
    client.post(url, form_of(client, url) | {"fallback_1": "", "max_running": 4})
    row.refresh_from_db()
    assert row.max_running == 4
    assert not row.fallback_rows.exists()


def test_a_provider_without_that_kind_or_without_an_address_is_refused(world: World) -> None:
    client = signed_in(world.admin)
    url = reverse("admin:gateway_modelendpoint_add")
    given = form_of(client, url) | {"name": "X", "model_name": "m"}
    for changes in ({"kind": "rerank", "provider": "anthropic"}, {"kind": "chat", "provider": "openai_compatible"}):
        client.post(url, given | changes)
    assert not ModelEndpoint.objects.filter(name="X").exists()


def test_quotas_and_records_of_another_workspace_are_not_there(models: ModelServer, world: World) -> None:
    mine = Quota.objects.create(
        workspace=world.workspace, subject="workspace", unit="tokens", period="day", limit=Decimal(10)
    )
    theirs = Quota.objects.create(
        workspace=world.elsewhere, subject="workspace", unit="tokens", period="day", limit=Decimal(10)
    )
    client = signed_in(world.admin)
    page = reverse("admin:gateway_quota_changelist")
    assert client.get(page).context["cl"].result_count == 1
    assert client.get(reverse("admin:gateway_quota_change", args=[mine.pk])).status_code == 200
    assert client.get(reverse("admin:gateway_quota_change", args=[theirs.pk])).status_code == 404
    UsageRecord.objects.create(workspace=world.elsewhere, kind="chat", purpose="ask", model_name="m", outcome="ok")
    assert client.get(reverse("admin:gateway_usagerecord_changelist")).context["cl"].result_count == 0


def test_the_account_book_leaves_as_csv_without_formulas(world: World) -> None:
    UsageRecord.objects.create(
        workspace=world.workspace, user=world.alice, kind="chat", purpose="ask", model_name="=1+1", outcome="ok",
        tokens_in=7, cost=Decimal("0.25"),
    )  # fmt: skip
    row = UsageDay.objects.create(workspace=world.workspace, day="2026-11-30", kind="chat", purpose="问答", calls=3)
    client = signed_in(world.admin)
    for model, parts in (
        ("usagerecord", ["'=1+1", "Alice", "0.25", "ask", "Answering", "what for"]),
        ("usageday", ["问答", "2026-11-30"]),
    ):
        pk = row.pk if model == "usageday" else UsageRecord.objects.get().pk
        url = reverse(f"admin:gateway_{model}_changelist")
        response: Any = client.post(url, {"action": "export", "_selected_action": [pk]})
        text = b"".join(response.streaming_content).decode()
        assert all(part in text for part in parts), text
        assert "tokens_in" in text.splitlines()[0]
