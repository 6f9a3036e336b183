"""Every address, admin page and socket topic, walked with foreign ids: absent and hidden look alike.

The addresses are read from the URL table itself, so a new one is walked without anybody adding it here;
one with a parameter that this test does not know fails until it is told what a real value is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from knowledge import asking, bases, notices
from knowledge.models import Grant, QueryRecord, Role
from knowledge.pages.document_actions import VERBS
from knowledge.retrieval.contract import RetrievalRequest
from portal.kernel import keys, notify
from portal.kernel.middleware import is_program
from portal.kernel.models import User
from portal.kernel.principal import for_user
from tests.support.doors import SECRET_WORD, Alices, signed_in, values_for
from tests.support.people import World

JSON = {"content_type": "application/json"}
# Verbs of workspace admins answer 403 to every member alike, before any id is looked at.
ADMINS = ("/api/v1/members/", "/api/v1/departments/", "/api/v1/keys/", "/api/v1/credentials/", "/api/v1/endpoints/")
METHODS = ("get", "post", "put", "patch", "delete")
# Addresses that anybody may open, or that only speak of the asker: nothing of Alice's can be named in them.
OPEN = re.compile(
    r"^/(static/|favicon|sign-in/|sign-out/|healthz|readyz|jsi18n|language/|theme/|api/v1/(health|schema|docs))"
)


def _plain(pattern: str) -> str:
    return re.sub(r"\\Z|[\\^$]", "", pattern).replace("/?", "/")


def _walk(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if not (prefix == "" and str(pattern.pattern).startswith("admin/")):
                yield from _walk(pattern.url_patterns, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern), pattern


def _addresses() -> list[str]:
    """All routes outside the admin, parameters as `{name}`."""
    found: set[str] = set()
    for route, _ in _walk(get_resolver().url_patterns):
        route = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", r"{\1}", route)
        route = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
        address = "/" + _plain(route).replace("//", "/")
        found.update(address.replace("{verb}", verb) for verb in _verbs_of(address))
    return sorted(found)


def _verbs_of(address: str) -> list[str]:
    """The verbs that a route with `{verb}` takes, each walked by itself."""
    if "/chunks/{verb}/" in address:
        return ["confirm", "send-back"]
    if "/revisions/{number}/{verb}/" in address:
        return ["retry", "cancel", "roll-back"]
    if "/sources/{source}/{verb}/" in address:
        return ["sync", "cancel", "delete"]
    if "/batches/{batch}/{verb}/" in address:
        return ["cancel", "undo", "again"]
    return sorted(VERBS)


ADDRESSES = _addresses()
MODELS: list[Any] = sorted(admin.site._registry, key=lambda model: model._meta.label)


def parameters(address: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", address))


def missing_values(values: dict[str, str]) -> dict[str, str]:
    """Ids of the same shape that nobody has."""
    # A picture's name is a hash: with another letter no route would take it.
    letter = {"key": "f"} if values.get("key") == "a" * 64 else {}
    return {
        name: value
        if name in {"section", "number", "page"}
        else "999999999"
        if value.isdigit()
        else letter.get(name, "z") * len(value)
        for name, value in values.items()
    }


def anonymised(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    text = re.sub(r"\b[0-9a-f]{12}\b", "TRACE", text)
    return re.sub(r'value="[A-Za-z0-9]{64}"', "TOKEN", text)


def with_key(world: World, user: User) -> Client:
    scopes = ["kb:read", "kb:write", "kb:manage", "chat"]
    _, secret = keys.create(world.principal(user), name="k", scopes=scopes)
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})


def test_the_walk_knows_every_parameter(alices: Alices) -> None:
    unknown = {name for address in ADDRESSES for name in parameters(address)} - set(values_for("", alices.values))
    assert not unknown, f"teach tests/flows/test_every_door.py real values for {sorted(unknown)}"
    assert len(ADDRESSES) > 30


@pytest.mark.parametrize("address", [address for address in ADDRESSES if parameters(address)])
def test_foreign_ids_answer_like_missing_ones_on_every_verb(alices: Alices, address: str) -> None:
    world = alices.world
    values = values_for(address, alices.values)
    real, missing = alices.url(address, values), alices.url(address, missing_values(values))
    if OPEN.match(real):
        pytest.skip("open to everybody")
    # Departments are known to every member of the workspace: only to Eve they are foreign.
    people = [world.eve] if address.startswith("/api/v1/departments/") else [world.mallory, world.eve]
    strangers = [signed_in(user) for user in people]
    if is_program(real):
        strangers += [with_key(world, user) for user in people]
    for client in strangers:
        for method in METHODS:
            answers = []
            for url in (real, missing):
                form = method == "get" or (method == "post" and not is_program(url))
                response = getattr(client, method)(url, {} if form else "{}", **({} if form else JSON))
                body = b"".join(response) if response.streaming else response.content
                assert SECRET_WORD not in body.decode("utf-8", "replace"), f"leaked by {method} {url}"
                answers.append((response.status_code, anonymised(body).replace(url, "URL")))
            status = answers[0][0]
            expected = {401, 404, 405} | ({403} if is_admin_verb(address) else set())
            # An empty body may be refused before the id is looked at, for every id alike.
            expected |= {422} if is_program(real) and method == "post" else set()
            # Asking for access answers everybody alike, whatever the id: there it is an answer, not a leak.
            expected |= {202, 422} if address.endswith("/ask-access/") else set()
            assert status in expected, f"{method} {real}: {status}"
            assert answers[0][0] == answers[1][0], f"{method} {real} tells hidden from absent"


def is_admin_verb(address: str) -> bool:
    """Verbs of workspace admins answer 403 to every member alike, before any id is looked at."""
    return address.startswith(ADMINS)


@pytest.mark.parametrize("address", [address for address in ADDRESSES if not parameters(address)])
def test_lists_of_strangers_hold_nothing_of_alices(alices: Alices, address: str) -> None:
    world = alices.world
    for user in (world.mallory, world.eve):
        response = signed_in(user).get(address, {"q": "cellar"})
        body = b"".join(response) if response.streaming else response.content
        assert SECRET_WORD not in body.decode("utf-8", "replace")
        assert world.base.uid not in body.decode("utf-8", "replace")


@pytest.mark.parametrize("address", ADDRESSES)
def test_nobody_without_signing_in_gets_past_the_door(alices: Alices, address: str) -> None:
    url = alices.url(address, values_for(address, alices.values))
    if OPEN.match(url):
        pytest.skip("open to everybody")
    for method in METHODS:
        response = getattr(Client(raise_request_exception=False), method)(url)
        if response.status_code == 302:
            assert response["Location"].startswith("/sign-in/"), f"{method} {url} → {response['Location']}"
        else:
            assert response.status_code in {401, 404, 405}, f"{method} {url}: {response.status_code}"


def test_searches_with_foreign_bases_find_nothing(alices: Alices) -> None:
    world = alices.world
    for user in (world.mallory, world.eve):
        client = with_key(world, user)
        for url in ("/api/v1/search", "/api/v1/ask"):
            for body in ({"query": "cellar"}, {"query": "cellar", "bases": [world.base.uid]}):
                response = client.post(url, body, content_type="application/json")
                assert response.status_code in {200, 404}
                assert SECRET_WORD not in response.content.decode()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_admin_pages_of_foreign_rows_are_absent(alices: Alices, model: Any) -> None:
    world = alices.world
    label = f"{model._meta.app_label}_{model._meta.model_name}"
    rows = [row.pk for row in model._default_manager.all()[:20]]
    own = set(admin.site._registry[model].get_queryset(_request_of(world.eve)).values_list("pk", flat=True))
    foreign = [pk for pk in rows if pk not in own]
    for page in ("change", "history", "delete"):
        for pk in foreign[:3]:
            url = reverse(f"admin:{label}_{page}", args=[pk])
            assert signed_in(world.eve).get(url).status_code in {403, 404}
            assert signed_in(world.mallory).get(url).status_code == 404
            assert signed_in(world.eve).post(url, {"post": "yes"}).status_code in {403, 404}
    body = signed_in(world.eve).get(reverse(f"admin:{label}_changelist")).content.decode()
    assert SECRET_WORD not in body
    assert "Handbook" not in body


def _request_of(user: User) -> Any:
    request = RequestFactory().get("/admin/")
    request.user = user
    request.principal = for_user(user, door="web")  # type: ignore[attr-defined]
    return request


def test_revoking_stops_search_preview_download_and_history_at_the_next_call(alices: Alices) -> None:
    world = alices.world
    client = with_key(world, world.bob)
    revision = alices.values["revision"]
    urls = [
        f"/api/v1/bases/{world.base.uid}",
        f"/api/v1/documents/{alices.values['document']}",
        f"/api/v1/revisions/{revision}/chunks",
        f"/api/v1/revisions/{revision}/file",
        f"/api/v1/revisions/{revision}/history",
    ]
    assert [client.get(url).status_code for url in urls] == [200] * len(urls)
    found = client.post("/api/v1/search", {"query": "cellar"}, content_type="application/json")
    assert SECRET_WORD in found.content.decode()
    bases.revoke(world.principal(world.alice), world.base, Grant.objects.get(base=world.base, user=world.bob))
    assert [client.get(url).status_code for url in urls] == [404] * len(urls)
    found = client.post("/api/v1/search", {"query": "cellar"}, content_type="application/json")
    assert SECRET_WORD not in found.content.decode()


def test_text_copied_out_of_a_base_goes_with_it(alices: Alices) -> None:
    world = alices.world
    bob = world.principal(world.bob)
    notify.tell([world.bob], "grant.added", workspace_id=world.workspace.pk, base_ids=[world.base.pk], base="x")
    result, record = asking.ask(bob, RetrievalRequest(query="cellar"), kind=QueryRecord.Kind.ASK)
    assert result.hits
    assert record is not None
    assert asking.readable_record(bob, record.uid)
    assert notices.readable(bob).exists()
    bases.revoke(world.principal(world.alice), world.base, Grant.objects.get(base=world.base, user=world.bob))
    assert asking.readable_record(bob, record.uid) is None
    assert asking.readable_records(bob, QueryRecord.Kind.ASK) == []
    assert not notices.readable(bob).exists()


def test_a_key_never_exceeds_scopes_owner_and_allow_list(alices: Alices) -> None:
    world = alices.world
    alice = world.principal(world.alice)
    base = f"/api/v1/bases/{world.base.uid}"

    def client(**narrow: Any) -> Client:
        _, secret = keys.create(alice, name="k", **narrow)
        return Client(headers={"X-API-Key": secret})

    reader = client(scopes=["kb:read"])
    assert reader.get(base).status_code == 200
    assert reader.patch(base, {"name": "x"}, content_type="application/json").status_code == 403
    assert reader.delete(f"/api/v1/documents/{alices.values['document']}").status_code == 403
    elsewhere = client(scopes=["kb:read", "kb:manage"], base_ids=[])
    assert elsewhere.get(base).status_code == 404
    assert elsewhere.post("/api/v1/bases", {"name": "New"}, content_type="application/json").status_code == 403
    manager = client(scopes=["kb:manage", "kb:read", "kb:write"])
    assert manager.patch(base, {"name": "Handbook 2"}, content_type="application/json").status_code == 200
    bases.grant(alice, world.base, Role.OWNER, user=world.bob)
    bases.revoke(world.principal(world.bob), world.base, Grant.objects.get(base=world.base, user=world.alice))
    assert manager.get(base).status_code == 404
