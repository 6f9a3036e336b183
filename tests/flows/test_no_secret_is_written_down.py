"""Secrets made for this run are put through every door; then everything that was written is searched for them.

Searched are all tables (the audit log among them), all Redis keys, the log as it is configured and as it would be
without its filter, the files of the data folder, every answer, and what commands print.
"""

from __future__ import annotations

import base64
import io
import logging
import re
import secrets as randomness
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from django.conf import settings as live_settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from portal.embedded import locations
from portal.gateway.embedding import embedder_for
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel import keys
from portal.kernel.errors import ArchwayError
from portal.kernel.logging import JsonFormatter, SecretFilter, TraceFilter
from portal.kernel.models import Credential, User
from portal.kernel.secrets import keyring, reveal, verbs, watch
from tests.flows.test_every_door import ADDRESSES, MODELS, parameters
from tests.support.doors import values_for
from tests.support.embedding_server import EmbeddingProvider
from tests.support.key_services import TOKEN, Transit

NAMES = ("by_api", "by_form", "replaced", "imported", "from_environment", "misplaced", "master_key", "password")


class Written:
    """What a run has written, and the secrets to look for in it."""

    def __init__(self) -> None:
        self.secrets = {name: f"{name}-{randomness.token_hex(16)}" for name in NAMES}
        key = randomness.token_bytes(32)
        self.secrets["master_key"] = base64.b64encode(key).decode()
        self.answers: list[str] = []
        self.log, self.raw_log = io.StringIO(), io.StringIO()

    def found_in(self, text: str) -> set[str]:
        return {name for name, value in self.secrets.items() if any(form in text for form in forms(value))}


def forms(value: str) -> set[str]:
    data = value.encode()
    return {
        value,
        quote(value, safe=""),
        data.hex(),
        base64.b64encode(data).decode().rstrip("="),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
    }


@pytest.fixture
def written() -> Iterator[Written]:
    """Listens to the log in two ways: as it is set up, and without the filter that takes secrets out."""
    found = Written()
    filtered, raw = logging.StreamHandler(found.log), logging.StreamHandler(found.raw_log)
    filtered.addFilter(TraceFilter())
    filtered.addFilter(SecretFilter())
    filtered.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    for handler in (filtered, raw):
        root.addHandler(handler)
    yield found
    root.setLevel(before)
    for handler in (filtered, raw):
        root.removeHandler(handler)


@pytest.fixture
def configured(written: Written, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A master key and a listed variable of this run; returns the key file."""
    file = tmp_path / "master.key"
    file.write_text(written.secrets["master_key"])
    monkeypatch.setenv("RUN_KEY", written.secrets["from_environment"])
    monkeypatch.setenv("OTHER_KEY", written.secrets["misplaced"])
    settings.ARCHWAY = {**settings.ARCHWAY, "MASTER_KEY_FILE": str(file), "ENV_CREDENTIALS": ["RUN_KEY"]}
    return file


def tables() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [row[0] for row in cursor.fetchall()]
        parts = []
        for name in names:
            cursor.execute(f"SELECT t::text FROM {connection.ops.quote_name(name)} AS t")
            parts += [row[0] for row in cursor.fetchall()]
    assert len(names) > 30
    return "\n".join(parts)


def redis_keys() -> str:
    """All keys and values of the databases that are ours."""
    parts = []
    for number in range(locations.DATABASES_PER_TENANT):
        with redis.Redis.from_url(locations.redis().client_url(number)) as client:
            for key in client.scan_iter(count=1000):
                parts.append(key.decode("utf-8", "replace"))
                try:
                    # The serialised form holds the bytes of short values as they are, whatever the type.
                    parts.append((client.dump(key) or b"").decode("latin-1"))
                except redis.ResponseError:
                    continue
    return "\n".join(parts)


def files() -> str:
    folder = Path(live_settings.DATA_DIR)
    found = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 5_000_000]
    return "\n".join(path.read_bytes().decode("latin-1") for path in found)


def through_the_pages(written: Written, alices: Any, operator: User) -> None:
    """Every address and every list and form of the admin, as operator and as admin of the workspace."""
    people = [operator, alices.world.admin]
    for user in people:
        client = Client(raise_request_exception=False)
        client.force_login(user)
        for address in ADDRESSES if user == alices.world.admin else ():
            values = values_for(address, alices.values)
            if parameters(address) <= set(values):
                response = client.get(alices.url(address, values))
                written.answers.append(b"".join(response).decode("utf-8", "replace"))
        for model in MODELS:
            label = f"{model._meta.app_label}_{model._meta.model_name}"
            written.answers.append(client.get(reverse(f"admin:{label}_changelist")).content.decode())
            for pk in model._default_manager.values_list("pk", flat=True)[:3]:
                for page in ("change", "history"):
                    written.answers.append(client.get(reverse(f"admin:{label}_{page}", args=[pk])).content.decode())


def through_the_api(written: Written, client: Client) -> str:
    """Give, replace, mistype and misplace secrets; returns the reference of the one that was given."""

    def send(method: Any, url: str, body: Any, **kwargs: Any) -> Any:
        response = method(url, body, **{"content_type": "application/json", **kwargs})
        written.answers.append(response.content.decode())
        return response

    secret, misplaced = written.secrets["by_api"], written.secrets["misplaced"]
    made = send(client.post, "/api/v1/credentials", {"name": "api", "host": "127.0.0.1", "value": secret}).json()
    url = f"/api/v1/credentials/{made['id']}"
    send(client.patch, url, {"host": "127.0.0.2"})
    send(client.patch, url, {"host": "not a host", "value": misplaced})
    send(client.post, "/api/v1/credentials", {"name": misplaced[:5], "host": "h", "value": f"{misplaced}\x01"})
    send(client.post, "/api/v1/credentials", f'{{"value": "{misplaced}"')
    for verb in ("reseal", "check"):
        send(client.post, f"{url}/{verb}", {})
    other = send(client.post, "/api/v1/credentials", {"name": "b", "host": "h", "value": secret}).json()
    send(client.patch, f"/api/v1/credentials/{other['id']}", {"value": written.secrets["replaced"]})
    for path in ("", "/api/v1/audit", "/api/v1/endpoints"):
        send(client.get, path or url, {})
    reference: str = made["reference"]
    return reference


def through_the_forms(written: Written, admin: User) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(admin)
    for form in (
        {"name": "", "host": "h.example", "secret": written.secrets["by_form"]},
        {"name": "form", "host": "h.example", "secret": written.secrets["by_form"]},
    ):
        written.answers.append(client.post(reverse("admin:kernel_credential_add"), form).content.decode())
    endpoint = {
        "name": "e", "kind": "embedding", "provider": "openai_compatible", "model_name": "m",
        "base_url": "https://h.example", "credential": written.secrets["misplaced"], "context_size": 512,
        "timeout_seconds": 5, "enabled": "on",
    }  # fmt: skip
    response = client.post(reverse("admin:gateway_modelendpoint_add"), endpoint, follow=True)
    written.answers.append(response.content.decode())
    anybody = Client(raise_request_exception=False)
    anybody.post("/sign-in/", {"username": "alice", "password": written.secrets["password"]})
    anybody.get("/api/v1/me", headers={"Authorization": f"Bearer {written.secrets['misplaced']}"})


def through_a_provider(written: Written, alices: Any, reference: str) -> None:
    """Calls that succeed, that a provider refuses with the key in its words, and that go to a wrong host."""
    workspace_id = alices.world.workspace.pk
    with EmbeddingProvider() as provider:
        space = EmbeddingSpace.objects.create(key="unused", dimensions=4)
        endpoint = ModelEndpoint.objects.create(
            workspace_id=workspace_id, name="own", kind="embedding", provider="openai_compatible", model_name="m",
            base_url=provider.url, space=space,
        )  # fmt: skip
        value = written.secrets["by_api"]
        made = verbs.create(None, name="provider", value=value, host=provider.url, workspace_id=workspace_id)
        ModelEndpoint.objects.filter(pk=endpoint.pk).update(credential=made.reference)
        endpoint.refresh_from_db()
        for fault in ("", "401"):
            provider.fault = fault
            try:
                embedder_for(endpoint).embed_queries(["hello"])
            except ArchwayError as error:
                written.answers.append(f"{error} {error!r} {error.sentence()}")
        assert provider.tokens, written.answers[-2:]
    for name, host in (
        (made.reference, "https://evil.example"), (reference, "127.0.0.1"), ("env://RUN_KEY", "h.example"),
        ("env://OTHER_KEY", "h.example"), (written.secrets["misplaced"], "h.example"),
    ):  # fmt: skip
        try:
            secret = reveal(name, host=host, purpose="test")
            written.answers.append(f"{secret} {secret!r} {[secret]}")
        except ArchwayError as error:
            written.answers.append(f"{error} {error.sentence()}")


def through_the_commands(written: Written, key_file: Path, settings: Settings, out: Any) -> None:
    """Import, rotation to a transit engine and back, lists and checks."""
    ModelEndpoint.objects.create(
        name="old", kind="embedding", provider="openai_compatible", model_name="m", base_url="https://h.example",
        credential=written.secrets["imported"],
    )  # fmt: skip
    call_command("import_credentials", "gateway.ModelEndpoint", "--value", "credential", "--host", "base_url")
    call_command("credentials", "list")
    call_command("credentials", "list", "--json")
    call_command("credentials", "check")
    with Transit() as engine:
        before = settings.ARCHWAY
        moved = {"MASTER_KEY_KMS": engine.address, "MASTER_KEY_OLD": [key_file.as_uri()], "VAULT_TOKEN": TOKEN}
        settings.ARCHWAY = {**before, **moved}
        call_command("rotate_master_key", "--keep-old", "--json")
        assert not any(written.found_in(text) for text in engine.bodies + engine.addresses)
        settings.ARCHWAY = {**before, "MASTER_KEY_OLD": [engine.address], "VAULT_TOKEN": TOKEN}
        call_command("rotate_master_key")
        settings.ARCHWAY = before
    keyring.data_keys.forget()
    try:
        call_command("doctor")
    except CommandError as error:
        written.answers.append(str(error))
    watch.look()
    watch.check_health()
    captured = out.readouterr()
    written.answers += [captured.out, captured.err]


@pytest.mark.writes_secrets("one of them is an old value that is imported")
@pytest.mark.django_db(transaction=True)
def test_no_secret_of_this_run_is_written_down_anywhere(
    written: Written, configured: Path, alices: Any, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    world = alices.world
    operator = User.objects.create_superuser("root", password=written.secrets["password"])
    _, key = keys.create(world.principal(world.admin), name="k", scopes=["admin", "kb:read"], per_minute=10_000)
    written.secrets["api_key"] = key
    reference = through_the_api(written, Client(raise_request_exception=False, headers={"X-API-Key": key}))
    through_the_forms(written, world.admin)
    through_a_provider(written, alices, reference)
    through_the_commands(written, configured, settings, capsys)
    through_the_pages(written, alices, operator)

    assert Credential.objects.count() >= 4
    places = {
        "tables": tables(),
        "redis": redis_keys(),
        "files": files(),
        "log": written.log.getvalue(),
        "log without its filter": written.raw_log.getvalue(),
        "answers": "\n".join(written.answers),
    }
    assert {place: written.found_in(text) for place, text in places.items() if written.found_in(text)} == {}
    # The search itself works: what is known to be written is found in each place that holds something.
    assert "credential.reveal" in places["tables"]
    assert "limit:" in places["redis"]
    assert "a credential was not revealed" in places["log"]
    assert "credential://" in places["answers"]


def test_the_repository_holds_nothing_that_looks_like_a_key_of_a_provider() -> None:
    """Keys of tests are made up and short, or made at run time."""
    pattern = re.compile(
        rb"AKIA[0-9A-Z]{16}|LTAI[0-9A-Za-z]{20}|\bsk-(?:proj-)?[A-Za-z0-9]{32,}|\bhvs\.[A-Za-z0-9_-]{40,}"
        rb"|BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*\n[A-Za-z0-9+/]{40}"
    )
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=locations.REPOSITORY, capture_output=True, check=False
    ).stdout.split(b"\0")
    if not any(listed):
        pytest.skip("not a git checkout")
    held = []
    for name in filter(None, listed):
        path = locations.REPOSITORY / name.decode()
        if path.is_file() and pattern.search(path.read_bytes()):
            held.append(name.decode())
    assert held == []
