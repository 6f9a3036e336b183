"""Every field and parameter of the API with values that no client of good will sends: never a fault of ours.

Fields are read from the API's own schema, so a new one is tried without anybody adding it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator

from portal.kernel import events, keys
from tests.support.doors import Alices, signed_in, values_for
from tests.support.people import World

ROOT = Path(__file__).resolve().parents[2]
Node = dict[str, Any]
SPOILT: list[Any] = ["a\x00b", "a\ud83db", 2**70, ["\ud83d", "\x00"], {"a\x00": "b\ud83d"}]
SPOILT_PARAMETERS = ["%00", "9" * 40]
SAMPLES = {"string": "x", "integer": 1, "number": 0.5, "boolean": True, "object": {}}
OF_ADMINS = ("/api/v1/members", "/api/v1/departments", "/api/v1/keys", "/api/v1/credentials", "/api/v1/audit")


@pytest.fixture(scope="module")
def schema() -> Node:
    return generated()


def generated() -> Node:
    generator: Any = SchemaGenerator
    return dict(generator().get_schema(request=None, public=True))


class Shapes:
    """The schemas of the bodies."""

    def __init__(self, schema: Node) -> None:
        self._named = schema["components"]["schemas"]

    def resolved(self, node: Node) -> Node:
        while "$ref" in node or len(node.get("allOf", ())) == 1:
            node = self._named[node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node["allOf"][0]
        return node

    def sample(self, node: Node) -> Any:
        """A value of the right type that need not make sense."""
        node = self.resolved(node)
        if "enum" in node:
            return node["enum"][0]
        if node.get("properties"):
            return {name: self.sample(node["properties"][name]) for name in node.get("required", ())}
        if node.get("type") == "array":
            return [self.sample(node["items"])]
        return SAMPLES.get(node.get("type", ""), "x")

    def spoilt(self, node: Node) -> Iterator[Node]:
        """Bodies in which one field after the other is spoilt, those of objects inside too."""
        node = self.resolved(node)
        sound = self.sample(node)
        for name, field in node.get("properties", {}).items():
            for value in SPOILT:
                yield {**sound, name: value}
            field = self.resolved(field)
            several = field.get("type") == "array"
            inner = self.resolved(field["items"] if several else field)
            for value in self.spoilt(inner):
                yield {**sound, name: [value] if several else value}


def spoilt_requests(schema: Node) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(method, address with what follows `?`, arguments of the client)."""
    shapes = Shapes(schema)
    for address, operations in schema["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    for given in SPOILT_PARAMETERS:
                        yield method, f"{address}?{parameter['name']}={given}", {}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            for value in shapes.spoilt(body["schema"]) if body else ():
                yield method, address, {"data": json.dumps(value), "content_type": "application/json"}


def forget_limits() -> None:
    """Some verbs have limits of their own: a few an hour."""
    redis = events.client()
    if kept := list(redis.scan_iter("limit:*")):
        redis.delete(*kept)


@pytest.mark.writes_secrets("the same values are tried in every field, so also as secrets")
def test_no_value_of_any_field_or_parameter_is_a_fault_of_ours(
    alices: Alices, schema: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(settings.ARCHWAY, "RATE_PER_PERSON", 10**6)
    alice, admin = signed_in(alices.world.alice), signed_in(alices.world.admin)
    faults: list[tuple[str, str, str]] = []
    statuses: set[int] = set()
    for method, address, arguments in spoilt_requests(schema):
        url = alices.url(address, values_for(address, alices.values))
        client = admin if address.startswith(OF_ADMINS) else alice
        forget_limits()
        with transaction.atomic():
            response = getattr(client, method)(url, **arguments)
            transaction.set_rollback(True)
        statuses.add(response.status_code)
        if response.status_code >= 500:
            faults.append((method, address, arguments.get("data", "")))
    assert faults == []
    assert {200, 422} <= statuses
    assert statuses.isdisjoint({401, 429})


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("chat/completions", {"model": "\ud83d", "messages": [{"role": "user", "content": "x"}]}),
        ("chat/completions", {"model": "bases", "messages": [{"role": "user", "content": "a\ud83db"}]}),
        ("embeddings", {"model": "\x00", "input": "x"}),
        ("embeddings", {"model": "archway-local", "input": "a\ud83db\x00"}),
    ],
)
def test_nor_is_any_value_that_openais_protocol_carries(world: World, address: str, body: Node) -> None:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["chat", "kb:read"])
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})
    response = client.post(f"/v1/{address}", json.dumps(body), content_type="application/json")
    assert response.status_code < 500


def test_the_schema_describes_the_api_without_a_doubt(capsys: pytest.CaptureFixture[str]) -> None:
    GENERATOR_STATS.reset()
    generated()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("folder", ["knowledge/api", "portal/api"])
def test_every_parameter_that_a_view_reads_is_in_the_schema(folder: str) -> None:
    reads = re.compile(r'query_params\.get\("(\w+)"')
    described = re.compile(r'OpenApiParameter\(\s*"(\w+)"')
    for path in sorted((ROOT / folder).glob("*.py")):
        text = path.read_text("utf-8")
        assert set(reads.findall(text)) <= set(described.findall(text)), path.name
