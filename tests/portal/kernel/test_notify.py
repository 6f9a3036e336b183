"""Notifications: in the bell, in the reader's language, and by mail where it is set up and wanted."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.utils import translation

from knowledge import lifecycle
from knowledge.models import Revision
from portal.kernel import notify
from portal.kernel.errors import Invalid
from portal.kernel.models import Notification, User
from tests.support.mail_server import MailServer
from tests.support.people import World, put


def tell(world: World, *users: User) -> None:
    notify.tell(
        users, "grant.added", workspace_id=world.workspace.pk, base_ids=[world.base.pk], link="/bases/x/", base="手册"
    )


def test_each_person_gets_a_line_that_names_its_bases(world: World) -> None:
    tell(world, world.alice, world.bob)
    rows = Notification.objects.filter(kind="grant.added", params={"base": "手册"})
    assert {row.user for row in rows} == {world.alice, world.bob}
    assert all(row.base_ids == [world.base.pk] and row.read_at is None for row in rows)


def test_every_kind_is_worded_when_it_is_read(world: World) -> None:
    for kind, message in notify.SENTENCES.items():
        params = {name: name.upper() for name in re.findall(r"%\((\w+)\)s", message)}
        with translation.override("en"):
            english = notify.sentence(kind, params)
        with translation.override("zh-hans"):
            chinese = notify.sentence(kind, params)
        assert english != chinese, f"{kind} is not translated"
        assert "%(" not in english + chinese


def test_the_reason_of_a_failure_is_told_in_the_readers_language(world: World) -> None:
    revision = put(world.principal(world.alice), world.base, "a.md", "# A\n\nText.\n").revision
    assert revision is not None
    claim = lifecycle.claim("w", revision.pk)
    assert claim is not None
    message = "%(name)s is larger than the limit of %(limit)s MB."
    lifecycle.fail(claim, Invalid(message, code="too_large", name="100%", limit=2))
    assert Revision.objects.get(pk=revision.pk).status == Revision.Status.FAILED
    row = Notification.objects.get(user=world.alice, kind="revision.failed")
    with translation.override("en"):
        assert "100% is larger than the limit of 2 MB." in notify.sentence(row.kind, row.params)
    with translation.override("zh-hans"):
        assert translation.gettext(message) % {"name": "100%", "limit": 2} in notify.sentence(row.kind, row.params)


@pytest.fixture
def mail(settings: LazySettings) -> Iterator[MailServer]:
    with MailServer() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.MAIL_CONFIGURED = True
        settings.PUBLIC_URL = "https://kb.example"
        yield server


def reachable(user: User, language: str, mail_notices: bool = True) -> User:
    user.email, user.language, user.mail_notices = f"{user.username}@example.org", language, mail_notices
    user.save()
    return user


@pytest.mark.django_db(transaction=True)
def test_mail_goes_to_who_wants_it_in_their_language(world: World, mail: MailServer) -> None:
    tell(world, reachable(world.alice, "en"), reachable(world.eve, "en", mail_notices=False), world.mallory)
    tell(world, reachable(world.bob, "zh-hans"))
    english, chinese = mail.wait_for(2)
    assert (english["To"], english["Subject"]) == ("alice@example.org", "You were given access to 手册.")
    assert english.get_content().strip().endswith("https://kb.example/bases/x/")
    with translation.override("zh-hans"):
        assert chinese["Subject"] == notify.sentence("grant.added", {"base": "手册"})
    assert chinese["To"] == "bob@example.org"


@pytest.mark.django_db(transaction=True)
def test_a_mail_server_that_is_away_fails_nobody(world: World, mail: MailServer, settings: LazySettings) -> None:
    settings.EMAIL_PORT = 1
    tell(world, reachable(world.alice, "en"))
    assert Notification.objects.filter(user=world.alice, kind="grant.added").exists()


@pytest.mark.django_db(transaction=True)
def test_a_name_with_line_breaks_makes_no_header(world: World, mail: MailServer) -> None:
    alice = reachable(world.alice, "en")
    notify.tell([alice], "grant.added", workspace_id=world.workspace.pk, base_ids=[], base="x\nBcc: eve@example.org")
    (message,) = mail.wait_for(1)
    assert message["Bcc"] is None
    assert message["Subject"] == "You were given access to x Bcc: eve@example.org."
