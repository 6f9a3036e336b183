"""The doors without a server in between: who may name what, quotas, and the shape of every error."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from knowledge import bases
from portal.gateway import hops
from portal.gateway.models import ModelEndpoint, Quota, UsageRecord
from portal.kernel import keys
from portal.kernel.models import User
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, make_world


def with_key(world: World, user: User, *scopes: str, **more: Any) -> Client:
    _, secret = keys.create(world.principal(user), name="k", scopes=scopes or ["chat", "kb:read"], **more)
    return Client(headers={"Authorization": f"Bearer {secret}"})


def ask(client: Client, model: str, **more: Any) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}
    return client.post("/v1/chat/completions", body, content_type="application/json")


def names(client: Client) -> list[str]:
    return [model["id"] for model in client.get("/v1/models").json()["data"]]


def test_a_name_keeps_its_meaning_when_the_base_is_renamed_and_goes_with_the_grant(world: World) -> None:
    alice, bob = world.principal(world.alice), with_key(world, world.bob)
    before = f"base-handbook-{world.base.uid}"
    assert before in names(bob)
    bases.describe(alice, world.base, name="员工 手册", description="")
    after = f"base-员工-手册-{world.base.uid}"
    assert after in names(bob)
    for name in (before, after, f"base-{world.base.uid}", f"bases-{world.base.uid}"):
        assert bob.get(f"/v1/models/{name}").status_code == 200, name
    mallory = with_key(world, world.mallory)
    assert not any(name.startswith("base") for name in names(mallory))
    assert ask(mallory, "bases").json()["error"]["code"] == "model_not_found"


def test_models_of_the_gateway_answer_to_what_an_admin_called_them(world: World, models: ModelServer) -> None:
    row = chat_endpoint(models, "demo", name="Small Talk")
    client = with_key(world, world.bob)
    for name in ("Small Talk", "demo", f"chat-{row.uid}", f"chat-whatever-{row.uid}"):
        assert ask(client, name).json()["model"] == f"chat-small-talk-{row.uid}"
    ModelEndpoint.objects.filter(pk=row.pk).update(enabled=False)
    assert ask(client, "Small Talk").status_code == 404
    other = chat_endpoint(models, "demo+tag=eves", workspace=world.elsewhere, name="Eve's")
    assert ask(client, f"chat-{other.uid}").status_code == 404
    assert f"chat-eves-{other.uid}" not in names(client)


def test_a_used_up_quota_says_so_in_openais_words_and_is_recorded(world: World, models: ModelServer) -> None:
    chat_endpoint(models, "demo", name="Small Talk")
    Quota.objects.create(
        workspace=world.workspace, subject="person", user=world.bob, unit="tokens", period="day", limit=1
    )
    client = with_key(world, world.bob)
    ask(client, "Small Talk")
    refused = ask(client, "Small Talk")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == refused.json()["error"]["type"] == "insufficient_quota"
    assert refused["x-should-retry"] == "false"
    assert int(refused["Retry-After"]) > 0
    assert sorted(UsageRecord.objects.values_list("outcome", flat=True)) == ["ok", "refused"]


def test_a_key_that_asks_too_often_waits_and_learns_how_long(world: World) -> None:
    client = with_key(world, world.bob, per_minute=2)
    left = [client.get("/v1/models")["x-ratelimit-remaining-requests"] for _ in range(2)]
    assert left == ["1", "0"]
    refused = client.get("/v1/models")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused["x-should-retry"] == "true"
    assert int(refused["Retry-After"]) > 0


def test_errors_have_openais_shape_wherever_they_arise(world: World) -> None:
    client = with_key(world, world.bob, "kb:read")
    cases = [
        (Client().get("/v1/models"), 401, "invalid_api_key"),
        (client.get("/v1/chat/completions"), 405, "method_not_allowed"),
        (ask(client, "bases"), 403, "scope_missing"),
        (client.get("/v1/assistants"), 404, "address_unknown"),
        (
            with_key(world, world.bob).post("/v1/embeddings", "{", content_type="application/json"),
            400,
            "bad_json",
        ),
    ]
    for response, status, code in cases:
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (status, code)
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]


def test_a_session_opens_no_door_that_browsers_of_other_sites_could_use(world: World) -> None:
    client = Client()
    client.force_login(world.alice)
    assert client.get("/v1/models").status_code == 401
    assert ask(client, "bases").status_code == 401


def test_a_chat_scope_alone_lists_bases_and_models_and_reading_alone_only_bases(
    world: World, models: ModelServer
) -> None:
    row = chat_endpoint(models, "demo", name="Small Talk")
    assert f"chat-small-talk-{row.uid}" in names(with_key(world, world.bob, "chat"))
    reader = names(with_key(world, world.bob, "kb:read"))
    assert f"base-handbook-{world.base.uid}" in reader
    assert not any(name.startswith("chat-") for name in reader)


def test_an_archway_that_names_itself_as_provider_ends_in_a_refusal_and_not_in_an_endless_round(
    transactional_db: None, live_server: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    _, secret = keys.create(world.principal(world.bob), name="k", scopes=["chat"])
    host = live_server.url.removeprefix("http://")
    monkeypatch.setenv("OWN_KEY", secret)
    settings.ARCHWAY = {**settings.ARCHWAY, "ENV_CREDENTIALS": [f"OWN_KEY@{host}"]}
    row = chat_endpoint(live_server.url, "mirror", provider="archway", name="mirror", credential="env://OWN_KEY")
    response = Client(headers={"Authorization": f"Bearer {secret}"}).post(
        "/v1/chat/completions",
        {"model": row.name, "messages": [{"role": "user", "content": "Hello"}]},
        content_type="application/json",
    )
    assert (response.status_code, response.json()["error"]["code"]) == (400, "model_refused")
    # One call for each time round: nobody asked twice.
    assert UsageRecord.objects.count() == hops.MOST


def test_a_question_that_has_passed_too_many_archways_is_refused_in_openais_shape(world: World) -> None:
    client = with_key(world, world.bob)
    response = client.get("/v1/models", headers={hops.HEADER: str(hops.MOST)})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "remote_loop")
    for header in (str(hops.MOST - 1), "many", "-1", "1" * 400, ""):
        assert client.get("/v1/models", headers={hops.HEADER: header}).status_code == 200


@pytest.mark.parametrize("signed_in", [False, True])
def test_an_address_that_asks_too_often_is_refused_in_openais_shape(
    world: World, settings: Settings, signed_in: bool
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "RATE_PER_ADDRESS": 2, "RATE_PER_PERSON": 1}
    client = Client(REMOTE_ADDR=f"198.51.100.{7 + signed_in}")
    if signed_in:
        client.force_login(world.bob)
    answers = [client.get("/v1/models") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
    assert int(answers[2]["Retry-After"]) > 0
