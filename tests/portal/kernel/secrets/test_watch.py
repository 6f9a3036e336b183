"""People hear of secrets that are used unusually, asked for wrongly, about to expire or not to be opened."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.kernel.errors import Invalid
from portal.kernel.models import AuditEntry, Credential, Notification, RevealCount, User
from portal.kernel.notify import sentence
from portal.kernel.secrets import reveal, verbs, watch
from tests.portal.kernel.secrets.conftest import Configure
from tests.support.key_services import KeyService
from tests.support.people import World

HOST = "api.example.com"


@pytest.fixture
def operator(world: World) -> User:
    """Oscar runs the installation; his own workspace is Eve's."""
    from portal.kernel import people

    oscar = people.create_person("oscar", "correct-horse-battery", language="en")
    User.objects.filter(pk=oscar.pk).update(is_superuser=True)
    people.set_membership(None, world.elsewhere, oscar)
    return oscar


@pytest.fixture
def credential(world: World, operator: User) -> Credential:
    return verbs.create(None, name="OpenAI", value="secret-under-watch", host=HOST, workspace_id=world.workspace.pk)


def use(credential: Credential, times: int = 1, host: str = HOST) -> None:
    for _ in range(times):
        reveal(credential.reference, host=host, purpose="test", workspace_id=credential.workspace_id)


def told() -> Counter[tuple[str, str]]:
    """(user, kind) of all notifications about secrets."""
    return Counter(Notification.objects.filter(base_ids=[]).values_list("user__username", "kind"))


def test_more_uses_within_an_hour_than_usual_are_told_once_to_operator_and_admins(
    credential: Credential, configure: Configure
) -> None:
    configure(REVEALS_PER_HOUR=5)
    use(credential, 5)
    assert watch.look() == 0
    use(credential, 3)
    assert watch.look() == 1
    assert watch.look() == 0
    assert told() == {("oscar", "credential.unusual"): 1, ("adam", "credential.unusual"): 1}
    row = Notification.objects.get(user__username="adam")
    assert sentence(row.kind, row.params) == ("The secret OpenAI was used 8 times within an hour; at most 0 are usual.")
    assert row.link == f"/admin/kernel/credential/{credential.pk}/change/"
    assert AuditEntry.objects.get(action="credential.alert").object_id == str(credential.pk)


def test_what_is_usual_for_a_busy_secret_is_no_alert(credential: Credential, configure: Configure) -> None:
    configure(REVEALS_PER_HOUR=2)
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=2)
    RevealCount.objects.create(subject=str(credential.pk), hour=hour, count=4, alerted=True)
    use(credential, 12)
    assert watch.look() == 0
    use(credential, 1)
    assert watch.look() == 1


def test_one_attempt_to_send_a_secret_elsewhere_is_told(credential: Credential) -> None:
    with pytest.raises(Invalid):
        use(credential, host="evil.example")
    assert watch.look() == 1
    assert told() == {("oscar", "credential.refused"): 1, ("adam", "credential.refused"): 1}
    row = Notification.objects.filter(kind="credential.refused").first()
    assert row is not None
    assert "OpenAI" in sentence(row.kind, row.params)


@pytest.mark.usefixtures("operator")
def test_a_variable_that_nobody_listed_is_told_to_the_operator(world: World) -> None:
    with pytest.raises(Invalid):
        reveal("env://DATABASE_URL", host="evil.example", purpose="test", workspace_id=world.workspace.pk)
    assert watch.look() == 1
    assert told() == {("oscar", "credential.refused"): 1}


def test_unusual_use_of_the_key_service_is_told_too(
    world: World, operator: User, configure: Configure, service: KeyService
) -> None:
    configure(REVEALS_PER_HOUR=2)
    for number in range(3):
        use(verbs.create(None, name=f"k{number}", value="kept-by-a-service", host=HOST, workspace_id=None))
    assert watch.look() == 1
    assert told() == {("oscar", "key_service.unusual"): 1}


def test_expiry_is_told_at_fourteen_days_three_days_and_the_end_once_each(credential: Credential) -> None:
    now = timezone.now()
    Credential.objects.update(expires_at=now + timedelta(days=13))
    assert [watch.look(now), watch.look(now + timedelta(days=1))] == [1, 0]
    assert [watch.look(now + timedelta(days=11)), watch.look(now + timedelta(days=11))] == [1, 0]
    assert [watch.look(now + timedelta(days=14)), watch.look(now + timedelta(days=20))] == [1, 0]
    assert told()["adam", "credential.expiring"] == 2
    assert told()["adam", "credential.expired"] == 1


def test_another_secret_starts_the_warnings_anew(credential: Credential) -> None:
    now = timezone.now()
    Credential.objects.update(expires_at=now)
    assert watch.look(now) == 1
    verbs.replace(None, credential, "a-newer-secret", expires_at=now + timedelta(days=2))
    assert watch.look(now) == 1


def test_a_credential_that_can_not_be_opened_is_found_and_told_once(credential: Credential) -> None:
    good = verbs.create(None, name="good", value="another-secret", host=HOST, workspace_id=None)
    Credential.objects.filter(pk=credential.pk).update(ciphertext=b"\x01" + bytes(60))
    assert watch.check_health() == {"good": 1, "unreadable": 1}
    assert watch.check_health() == {"good": 1, "unreadable": 1}
    assert told() == {("oscar", "credential.unreadable"): 1, ("adam", "credential.unreadable"): 1}
    assert set(Credential.objects.filter(watch.needs_attention(timezone.now()))) == {credential}
    good.refresh_from_db()
    assert good.checked_at is not None


def test_a_key_service_that_is_away_makes_no_credential_unreadable(credential: Credential, service: KeyService) -> None:
    sealed = verbs.create(None, name="kms", value="another-secret", host=HOST, workspace_id=None)
    service.fault = "down"
    found = watch.check_health(Credential.objects.filter(pk=sealed.pk))
    assert found == {"good": 0, "unreadable": 0}
    sealed.refresh_from_db()
    assert sealed.health == Credential.Health.GOOD


def test_what_was_exposed_stays_on_the_list_until_it_has_another_value(credential: Credential) -> None:
    verbs.mark_exposed(None, credential)
    assert Credential.objects.filter(watch.needs_attention(timezone.now())).exists()
    verbs.reseal(None, credential)
    assert Credential.objects.filter(watch.needs_attention(timezone.now())).exists()
    verbs.replace(None, credential, "from-the-provider-anew")
    assert not Credential.objects.filter(watch.needs_attention(timezone.now())).exists()
    actions = AuditEntry.objects.filter(object_id=str(credential.pk)).order_by("id").values_list("action", flat=True)
    assert list(actions) == ["credential.create", "credential.expose", "credential.reseal", "credential.replace"]
