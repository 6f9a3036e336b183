"""Stored secrets from the shell, and old plain values that become stored secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid
from portal.kernel.models import AuditEntry, Credential
from portal.kernel.secrets import importing, reveal, rows, verbs
from tests.support.people import World

pytestmark = pytest.mark.writes_secrets("old values stand in the clear until they are imported")
HOST = "api.example.com"
COLUMN = importing.PlaintextColumn(
    "gateway.ModelEndpoint", value="credential", host="base_url", reference="credential", name="name"
)
ARGUMENTS = ["import_credentials", "gateway.ModelEndpoint", "--value", "credential", "--host", "base_url", "--json"]


def endpoint(name: str, credential: str, **fields: Any) -> ModelEndpoint:
    return ModelEndpoint.objects.create(
        name=name,
        kind="embedding",
        provider="openai_compatible",
        model_name="m",
        credential=credential,
        **{"base_url": f"https://{HOST}/v1", **fields},
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    call_command(*arguments)
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_plain_values_are_sealed_for_their_host_and_workspace_and_taken_out(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = endpoint("shared", "plain-secret-one")
    own = endpoint("own", "plain-secret-two", workspace=world.workspace)
    referring = endpoint("referring", "env://SHARED_KEY")
    empty = endpoint("empty", "")
    assert said(capsys, *ARGUMENTS, "--dry-run") == {"found": 2, "sealed": 0, "failed": []}
    assert said(capsys, *ARGUMENTS) == {"found": 2, "sealed": 2, "failed": []}
    for row in (shared, own, referring, empty):
        row.refresh_from_db()
    assert (referring.credential, empty.credential) == ("env://SHARED_KEY", "")
    assert reveal(shared.credential, host=shared.base_url, purpose="t").expose() == "plain-secret-one"
    mine = reveal(own.credential, host=own.base_url, purpose="t", workspace_id=world.workspace.pk)
    assert mine.expose() == "plain-secret-two"
    assert AuditEntry.objects.filter(action="credential.import").count() == 2
    assert said(capsys, *ARGUMENTS)["found"] == 0


def test_an_import_that_stops_in_the_middle_goes_on_with_the_rest(db: None) -> None:
    endpoints = [endpoint(f"e{number}", f"plain-secret-{number}") for number in range(4)]
    running = importing.import_rows(COLUMN)
    assert [next(running)[1], next(running)[1]] == ["", ""]
    running.close()
    assert len(importing.pending(COLUMN)) == 2
    assert [code for _, code in importing.import_rows(COLUMN)] == ["", ""]
    assert Credential.objects.count() == 4
    for row, number in zip(endpoints, range(4), strict=True):
        row.refresh_from_db()
        assert reveal(row.credential, host=HOST, purpose="t").expose() == f"plain-secret-{number}"


def test_a_row_without_a_host_is_left_as_it_is_and_named(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    bad = endpoint("bad", "plain-secret", base_url="")
    good = endpoint("good", "plain-secret")
    with pytest.raises(CommandError):
        call_command(*ARGUMENTS)
    assert json.loads(capsys.readouterr().out) == {
        "found": 2, "sealed": 1, "failed": [{"id": str(bad.pk), "code": "host_invalid"}],
    }  # fmt: skip
    bad.refresh_from_db()
    good.refresh_from_db()
    assert bad.credential == "plain-secret"
    assert good.credential.startswith("credential://")


def test_a_column_that_does_not_exist_is_named(db: None) -> None:
    for model, value in (("nothing.Here", "x"), ("gateway.ModelEndpoint", "no_such_column")):
        with pytest.raises(Invalid) as caught:
            importing.pending(importing.PlaintextColumn(model, value=value, host="base_url", reference=value))
        assert caught.value.code == "column_unknown"


@pytest.fixture
def two(db: None) -> list[Credential]:
    return [
        verbs.create(None, name=name, value=f"secret-of-{name}-0123456789", host=HOST, workspace_id=None)
        for name in ("one", "two")
    ]


def test_a_leak_is_worked_off_by_a_checklist(two: list[Credential], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(said(capsys, "credentials", "expose", "--all", "--json")["done"]) == 2
    assert len(said(capsys, "credentials", "list", "--exposed", "--json")["credentials"]) == 2
    verbs.replace(None, two[0], "from-the-provider-anew")
    left = said(capsys, "credentials", "list", "--exposed", "--json")["credentials"]
    assert [row["name"] for row in left] == ["two"]
    said(capsys, "credentials", "revoke", two[1].reference, "--json")
    assert said(capsys, "credentials", "list", "--attention", "--json")["credentials"] == []


def test_the_commands_show_no_secret(two: list[Credential], capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["list"], ["list", "--json"], ["check"], ["reseal", "--all"], ["reseal", str(two[0].pk)]):
        call_command("credentials", *arguments)
    out = capsys.readouterr()
    assert "secret-of" not in out.out + out.err
    assert "2 found." in out.out
    assert rows.take(Credential.objects.get(pk=two[0].pk))[0] == "secret-of-one-0123456789"


def test_a_check_that_finds_something_ends_with_an_error(two: list[Credential]) -> None:
    Credential.objects.filter(pk=two[0].pk).update(wrapped_key=b"\x01" + bytes(60))
    with pytest.raises(CommandError, match="can not be opened"):
        call_command("credentials", "check")


@pytest.mark.parametrize("arguments", [["revoke"], ["revoke", "no-uuid"], ["revoke", "0" * 32]])
def test_nothing_is_done_to_what_was_not_named_rightly(two: list[Credential], arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("credentials", *arguments)
    assert not Credential.objects.filter(revoked_at__isnull=False).exists()
