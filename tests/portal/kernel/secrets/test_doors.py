"""Credentials over REST and in the admin: secrets go in and never come out; strangers find nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.kernel import keys
from portal.kernel.models import AuditEntry, Credential, MasterKey, User
from portal.kernel.secrets import reveal, rows, verbs
from tests.support.people import World

URL = "/api/v1/credentials"
VALUE = "sk-very-secret-value-7890"


def with_key(world: World, user: User, *scopes: str) -> Client:
    _, secret = keys.create(world.principal(user), name="k", scopes=scopes or ("admin",))
    return Client(headers={"Authorization": f"Bearer {secret}"})


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def admin(world: World) -> Client:
    return with_key(world, world.admin)


@pytest.fixture
def made(admin: Client) -> dict[str, Any]:
    response = send(admin.post, URL, name="OpenAI", host="https://api.openai.com/v1", value=VALUE)
    assert response.status_code == 201, response.content
    answer: dict[str, Any] = response.json()
    return answer


def send(method: Any, url: str, **body: Any) -> Any:
    return method(url, body, content_type="application/json")


def test_a_secret_that_was_given_is_described_and_never_shown(admin: Client, made: dict[str, Any]) -> None:
    assert made["reference"] == f"credential://{made['id']}"
    assert (made["host"], made["hint"], made["state"], made["scope"]) == (
        "api.openai.com", "7890", "active", "workspace",
    )  # fmt: skip
    url = f"{URL}/{made['id']}"
    answers = [admin.get(URL), admin.get(url), admin.post(f"{url}/reseal"), admin.post(f"{url}/check")]
    answers += [send(admin.patch, url, name="Other"), admin.get("/api/v1/audit")]
    for answer in answers:
        assert answer.status_code == 200, answer.content
        body = answer.content.decode()
        assert VALUE not in body
        assert "ciphertext" not in body
        assert "wrapped" not in body
    assert Credential.objects.get().name == "Other"


def test_the_end_of_a_short_secret_is_not_shown(admin: Client) -> None:
    response = send(admin.post, URL, name="short", host="h.example", value="tiny-one")
    assert response.json()["hint"] == ""
    assert response.json()["fingerprint"]


def test_listing_opens_nothing_and_does_not_even_fetch_what_is_sealed(
    admin: Client, world: World, made: dict[str, Any]
) -> None:
    Credential.objects.update(ciphertext=b"not a seal at all")
    for client, url in ((admin, URL), (signed_in(world.admin), reverse("admin:kernel_credential_changelist"))):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get(url).status_code == 200
        asked = [query["sql"] for query in queries if '"kernel_credential"' in query["sql"]]
        assert asked
        assert not any("ciphertext" in sql or "wrapped_key" in sql for sql in asked)


def test_resealing_one_credential_changes_the_seal_and_is_in_the_audit_log(admin: Client, made: dict[str, Any]) -> None:
    before = bytes(Credential.objects.get().ciphertext)
    assert admin.post(f"{URL}/{made['id']}/reseal").status_code == 200
    row = Credential.objects.get()
    assert bytes(row.ciphertext) != before
    assert rows.take(row)[0] == VALUE
    assert AuditEntry.objects.filter(action="credential.reseal", object_id=made["id"]).exists()


def test_another_host_wants_the_secret_again(admin: Client, world: World, made: dict[str, Any]) -> None:
    url = f"{URL}/{made['id']}"
    refused = send(admin.patch, url, host="evil.example")
    assert (refused.status_code, refused.json()["code"]) == (422, "secret_needed")
    assert send(admin.patch, url, host="https://api.openai.com/other/path").status_code == 200
    moved = send(admin.patch, url, host="https://eu.example", value="the-secret-of-the-new-host")
    assert moved.json()["host"] == "eu.example"
    secret = reveal(made["reference"], host="https://eu.example", purpose="test", workspace_id=world.workspace.pk)
    assert secret.expose() == "the-secret-of-the-new-host"


def test_revoking_destroys_what_was_sealed_and_another_secret_brings_it_back(
    admin: Client, made: dict[str, Any]
) -> None:
    url = f"{URL}/{made['id']}"
    assert admin.delete(url).status_code == 204
    assert admin.delete(url).status_code == 204
    assert admin.get(url).json()["state"] == "revoked"
    assert bytes(Credential.objects.get().ciphertext) == b""
    assert admin.post(f"{url}/reseal").json()["code"] == "credential_unreadable"
    assert send(admin.patch, url, value=VALUE).json()["state"] == "active"


def test_expiry_is_kept_when_only_the_name_changes_and_cleared_by_a_new_secret(
    admin: Client, made: dict[str, Any]
) -> None:
    url = f"{URL}/{made['id']}"
    end = (timezone.now() + timedelta(days=30)).isoformat()
    assert send(admin.patch, url, expires_at=end).json()["expires_at"]
    assert send(admin.patch, url, name="Renamed").json()["expires_at"]
    assert send(admin.patch, url, value=VALUE).json()["expires_at"] is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "x", "host": "a b", "value": VALUE}, "host_invalid"),
        ({"name": "x", "host": "ftp://h", "value": VALUE}, "host_invalid"),
        ({"name": "x", "host": "https://user:pw@h", "value": VALUE}, "host_invalid"),
        ({"name": "x", "host": "h.example", "value": "a\x01b"}, "secret_invalid"),
        ({"name": "x", "host": "h.example", "value": "\ud800"}, "secret_invalid"),
        ({"name": "x", "host": "h.example", "value": ""}, "fields_invalid"),
        ({"name": "OpenAI", "host": "h.example", "value": VALUE}, "name_taken"),
    ],
)
@pytest.mark.usefixtures("made")
def test_wrong_input_has_a_code_and_is_not_repeated(admin: Client, body: dict[str, str], code: str) -> None:
    response = send(admin.post, URL, **body)
    assert response.json()["code"] == code, response.content
    assert VALUE not in response.content.decode()


def test_strangers_members_and_small_keys_find_nothing(world: World, made: dict[str, Any]) -> None:
    url = f"{URL}/{made['id']}"
    for client in (signed_in(world.eve), with_key(world, world.eve), signed_in(world.alice), signed_in(world.mallory)):
        assert client.get(url).status_code == 404
        for verb in ("reseal", "check", "expose"):
            assert client.post(f"{url}/{verb}").status_code == 404
        assert send(client.patch, url, value="stolen-by-eve").status_code == 404
        assert client.delete(url).status_code == 404
        assert made["id"] not in client.get(URL).content.decode()
    assert signed_in(world.alice).get(URL).status_code == 403
    assert with_key(world, world.alice, "kb:read").get(URL).status_code == 403
    assert with_key(world, world.admin, "kb:read", "kb:manage").get(url).status_code == 403
    assert rows.take(Credential.objects.get())[0] == VALUE


def test_the_installations_credentials_are_the_operators(world: World, admin: Client) -> None:
    refused = send(admin.post, URL, name="x", host="h.example", value=VALUE, scope="installation")
    assert (refused.status_code, refused.json()["code"]) == (403, "operator_only")
    User.objects.filter(pk=world.eve.pk).update(is_superuser=True)
    operator = with_key(world, world.eve)
    made = send(operator.post, URL, name="x", host="h.example", value=VALUE, scope="installation").json()
    assert made["scope"] == "installation"
    assert admin.get(f"{URL}/{made['id']}").status_code == 404
    assert operator.get(f"{URL}/{made['id']}").status_code == 200


def test_changes_are_limited_per_person(admin: Client) -> None:
    codes = {send(admin.post, URL, name="", host="", value="").status_code for _ in range(31)}
    assert codes == {422, 429}


def test_the_admin_form_takes_a_secret_and_shows_none(world: World) -> None:
    client = signed_in(world.admin)
    add = reverse("admin:kernel_credential_add")
    assert 'type="password"' in client.get(add).content.decode()
    refused = client.post(add, {"name": "Form", "host": "api.example.com", "secret": ""})
    assert "Give the secret." in refused.content.decode()
    form = {"name": "Form", "host": "https://api.example.com/v1", "secret": VALUE, "workspace": world.elsewhere.pk}
    assert client.post(add, form).status_code == 302
    row = Credential.objects.get()
    # A workspace's admin has no say about the workspace.
    assert (row.workspace, row.host, row.hint, row.created_by) == (
        world.workspace, "api.example.com", "7890", world.admin,
    )  # fmt: skip
    change = reverse("admin:kernel_credential_change", args=[row.pk])
    body = client.get(change).content.decode()
    assert VALUE not in body
    assert row.reference in body
    moved = client.post(change, {"name": "Form", "host": "evil.example", "secret": ""})
    assert "Give the secret again" in moved.content.decode()
    assert client.post(change, {"name": "Renamed", "host": "api.example.com", "secret": ""}).status_code == 302
    row.refresh_from_db()
    assert (row.name, rows.take(row)[0]) == ("Renamed", VALUE)
    again = client.post(change, {"name": "Renamed", "host": "new.example", "secret": "for-the-new-host"})
    assert again.status_code == 302
    row.refresh_from_db()
    assert (row.host, rows.take(row)[0]) == ("new.example", "for-the-new-host")


def test_an_error_in_the_form_does_not_send_the_secret_back(world: World) -> None:
    form = {"name": "", "host": "api.example.com", "secret": VALUE}
    body = signed_in(world.admin).post(reverse("admin:kernel_credential_add"), form).content.decode()
    assert "This field is required" in body
    assert VALUE not in body


def test_actions_of_the_admin_are_the_verbs(world: World, made: dict[str, Any]) -> None:
    client = signed_in(world.admin)
    url = reverse("admin:kernel_credential_changelist")
    for action in ("reseal", "examine", "expose", "revoke"):
        assert client.post(url, {"action": action, "_selected_action": [made["id"]]}).status_code == 302
    done = set(AuditEntry.objects.filter(object_id=made["id"]).values_list("action", flat=True))
    assert done >= {"credential.create", "credential.reseal", "credential.expose", "credential.revoke"}
    assert AuditEntry.objects.filter(action="credential.check").exists()


def test_the_first_page_of_the_admin_counts_what_needs_attention_and_opens_its_list(
    world: World, made: dict[str, Any]
) -> None:
    client = signed_in(world.admin)
    link = f"{reverse('admin:kernel_credential_changelist')}?attention=1"
    assert link in client.get("/admin/").content.decode()
    assert "OpenAI" not in client.get(link).content.decode()
    verbs.mark_exposed(None, Credential.objects.get())
    assert "OpenAI" in client.get(link).content.decode()


@pytest.mark.usefixtures("made")
def test_the_filter_by_state_finds_each(world: World) -> None:
    client = signed_in(world.admin)
    url = reverse("admin:kernel_credential_changelist")
    assert "OpenAI" in client.get(f"{url}?state=active").content.decode()
    assert "OpenAI" not in client.get(f"{url}?state=expired").content.decode()
    Credential.objects.update(expires_at=timezone.now())
    assert "OpenAI" in client.get(f"{url}?state=expired").content.decode()
    Credential.objects.update(revoked_at=timezone.now())
    assert "OpenAI" in client.get(f"{url}?state=revoked").content.decode()


def test_the_operator_sees_master_keys_with_the_number_of_their_rows(made: dict[str, Any]) -> None:
    operator = User.objects.create_superuser("root", password="x")
    body = signed_in(operator).get(reverse("admin:kernel_masterkey_changelist")).content.decode()
    assert MasterKey.objects.get().key_id in body
