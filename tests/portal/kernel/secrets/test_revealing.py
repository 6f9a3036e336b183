"""A reference gives its secret for its host, its workspace and a purpose that is written down."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from portal.kernel.errors import Invalid
from portal.kernel.models import AuditEntry, Credential
from portal.kernel.secrets import require_usable, reveal, verbs
from tests.support.people import World

VALUE = "sk-alpha-0123456789-omega"


@pytest.fixture
def credential(world: World) -> Credential:
    admin = world.principal(world.admin)
    return verbs.create(
        admin, name="OpenAI", value=VALUE, host="https://api.openai.com/v1", workspace_id=world.workspace.pk
    )


def refusal(reference: str, host: str = "api.openai.com", workspace_id: int | None = None) -> str:
    with pytest.raises(Invalid) as caught:
        reveal(reference, host=host, purpose="test", workspace_id=workspace_id)
    assert VALUE not in str(caught.value)
    return caught.value.code


def test_a_credential_is_revealed_to_its_host_and_the_audit_log_says_for_what(
    credential: Credential, world: World
) -> None:
    secret = reveal(
        credential.reference, host="https://API.openai.com:443/v1", purpose="chat.call", workspace_id=world.workspace.pk
    )
    assert secret.expose() == VALUE
    entry = AuditEntry.objects.get(action="credential.reveal")
    assert entry.object_id == str(credential.pk)
    assert (entry.detail["purpose"], entry.detail["host"]) == ("chat.call", "api.openai.com")
    assert VALUE not in str(entry.detail)
    credential.refresh_from_db()
    assert credential.last_used_at is not None


@pytest.mark.parametrize("host", ["https://evil.example", "http://api.openai.com", "api.openai.com:8443"])
def test_another_host_gets_nothing_and_the_attempt_is_recorded(credential: Credential, world: World, host: str) -> None:
    assert refusal(credential.reference, host, world.workspace.pk) == "credential_host_mismatch"
    assert AuditEntry.objects.get(action="credential.refused").detail["code"] == "credential_host_mismatch"
    assert not AuditEntry.objects.filter(action="credential.reveal").exists()


def test_rows_of_another_workspace_or_of_the_installation_can_not_use_it(credential: Credential, world: World) -> None:
    assert refusal(credential.reference, workspace_id=world.elsewhere.pk) == "credential_unknown"
    assert refusal(credential.reference, workspace_id=None) == "credential_unknown"


def test_revoked_and_expired_ones_are_refused(credential: Credential, world: World) -> None:
    Credential.objects.update(expires_at=timezone.now())
    assert refusal(credential.reference, workspace_id=world.workspace.pk) == "credential_expired"
    verbs.revoke(world.principal(world.admin), credential)
    assert refusal(credential.reference, workspace_id=world.workspace.pk) == "credential_revoked"
    credential.refresh_from_db()
    assert not credential.ciphertext
    assert not credential.wrapped_key


@pytest.mark.parametrize("reference", ["credential://nonsense", "credential://", "sk-plain", "file:///etc/passwd"])
@pytest.mark.django_db
def test_what_is_no_reference_is_unknown_and_not_repeated(reference: str) -> None:
    assert refusal(reference) == "credential_unknown"
    assert "sk-plain" not in str(list(AuditEntry.objects.values()))


@pytest.mark.django_db
def test_no_reference_means_no_secret() -> None:
    assert not reveal("", host="api.openai.com", purpose="test")


@pytest.fixture
def listed(settings: Settings, monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    names = ["SHARED_KEY", "BOUND_KEY@api.openai.com", "EMPTY_KEY"]
    settings.ARCHWAY = {**settings.ARCHWAY, "ENV_CREDENTIALS": names}
    for name in ("SHARED_KEY", "BOUND_KEY"):
        monkeypatch.setenv(name, VALUE)
    monkeypatch.setenv("EMPTY_KEY", "")


@pytest.mark.usefixtures("listed")
def test_variables_are_revealed_only_as_the_operator_listed_them() -> None:
    assert reveal("env://SHARED_KEY", host="anything.example", purpose="test").expose() == VALUE
    assert reveal("env://BOUND_KEY", host="api.openai.com", purpose="test", workspace_id=7).expose() == VALUE
    assert refusal("env://DATABASE_URL") == "credential_not_listed"
    assert refusal("env://") == "credential_not_listed"
    assert refusal("env://EMPTY_KEY") == "credential_missing"
    # A workspace's admin chooses the host of their endpoints: a variable without a host would go anywhere.
    assert refusal("env://SHARED_KEY", workspace_id=7) == "credential_not_allowed"
    assert refusal("env://BOUND_KEY", "evil.example", workspace_id=7) == "credential_host_mismatch"
    assert refusal("env://BOUND_KEY", "evil.example") == "credential_host_mismatch"


def test_a_form_can_ask_whether_a_reference_serves_a_host_without_opening_it(
    credential: Credential, world: World
) -> None:
    require_usable(credential.reference, host="https://api.openai.com", workspace_id=world.workspace.pk)
    with pytest.raises(Invalid) as caught:
        require_usable(credential.reference, host="https://elsewhere.example", workspace_id=world.workspace.pk)
    assert caught.value.code == "credential_host_mismatch"
    assert not AuditEntry.objects.filter(action__in=["credential.reveal", "credential.refused"]).exists()


def test_inside_a_transaction_nothing_is_revealed_because_the_audit_line_could_be_taken_back(
    credential: Credential, world: World
) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError):
        reveal(credential.reference, host="api.openai.com", purpose="test", workspace_id=world.workspace.pk)
