"""What an attacker inside the workspace tries: hidden names and columns, roles that grow, doors left open."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from knowledge import bases, intake
from knowledge.models import Grant, KnowledgeBase, QueryRecord, Role
from portal.kernel import keys, people
from portal.kernel.errors import Conflict
from portal.kernel.models import AuditEntry, User
from portal.kernel.principal import for_key
from tests.support.people import World, put


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def closed(world: World) -> KnowledgeBase:
    """A sensitive base of Alice's, with a document in it."""
    alice = world.principal(world.alice)
    base = bases.create(alice, name="Layoffs", sensitive=True)
    put(alice, base, "redundancies.md", "# Who\n\nnobody yet")
    return base


def test_taken_names_do_not_give_hidden_bases_away(world: World, closed: KnowledgeBase) -> None:
    mallory = world.principal(world.mallory)
    made = bases.create(mallory, name=closed.name)
    other = bases.create(mallory, name="Other")
    with pytest.raises(Conflict):
        bases.describe(mallory, other, name=made.name)
    with pytest.raises(Conflict):
        bases.create(world.principal(world.alice), name=closed.name)


def test_the_audit_log_tells_an_admin_no_words_of_a_closed_base(world: World, closed: KnowledgeBase) -> None:
    client = signed_in(world.admin)
    answer = client.get("/api/v1/audit?size=200")
    assert [row["action"] for row in answer.json()["results"]].count("document.create") == 1
    texts = [answer.content.decode()]
    texts += [
        client.get(reverse("admin:kernel_auditentry_change", args=[pk])).content.decode()
        for pk in AuditEntry.objects.filter(base_ids=[closed.pk]).values_list("pk", flat=True)
    ]
    assert len(texts) > 2
    assert not [text for text in texts if "redundancies" in text or "Layoffs" in text]
    assert "redundancies" in str(AuditEntry.objects.get(action="document.create").detail)


def test_the_audit_log_is_whole_for_ordinary_bases_and_deleted_ones(world: World) -> None:
    alice = world.principal(world.alice)
    put(alice, world.base, "rules.md", "# Rules\n\nNone.")
    bases.delete(alice, world.base)
    text = signed_in(world.admin).get("/api/v1/audit?size=200").content.decode()
    assert "rules.md" in text
    assert '"name":"Handbook"' in text


def test_an_admins_narrowed_key_reads_no_words_of_other_bases_in_the_audit_log(world: World) -> None:
    other = bases.create(world.principal(world.alice), name="Recipes")
    _, secret = keys.create(world.principal(world.admin), name="k", scopes=["admin"], base_ids=[world.base.pk])
    text = Client(headers={"X-API-Key": secret}).get("/api/v1/audit?size=200").content.decode()
    assert "Handbook" in text
    assert other.name not in text


def test_an_admin_who_may_only_read_a_sensitive_base_finds_no_buttons_for_it(
    world: World, closed: KnowledgeBase
) -> None:
    bases.grant(world.principal(world.alice), closed, Role.VIEWER, user=world.admin)
    client = signed_in(world.admin)
    assert client.get(reverse("admin:knowledge_knowledgebase_change", args=[closed.pk])).status_code == 404
    for model, action, pk in (
        ("knowledgebase", "delete_chosen", closed.pk),
        ("grant", "revoke", Grant.objects.get(base=closed, user=world.admin).pk),
        ("document", "bin", closed.documents.get().pk),
    ):
        url = reverse(f"admin:knowledge_{model}_changelist")
        client.post(url, {"action": action, "_selected_action": [pk]})
    closed.refresh_from_db()
    assert closed.deleted_at is None
    assert closed.documents.get().deleted_at is None
    assert Grant.objects.filter(base=closed).count() == 2


@pytest.mark.parametrize(
    ("model", "lookup"),
    [
        ("kernel_user", "password__startswith"),
        ("kernel_apikey", "digest__startswith"),
        ("kernel_notification", "params__icontains"),
        ("kernel_auditentry", "detail__icontains"),
        ("knowledge_queryrecord", "query__startswith"),
        ("knowledge_queryrecord", "result__icontains"),
        ("knowledge_revision", "file__startswith"),
        ("knowledge_storedimage", "file__startswith"),
    ],
)
def test_columns_that_the_admin_does_not_show_can_not_be_guessed_by_filters(
    world: World, model: str, lookup: str
) -> None:
    QueryRecord.objects.create(
        workspace=world.workspace, user=world.alice, kind=QueryRecord.Kind.ASK, query="am I ill?", base_ids=[]
    )
    client = signed_in(world.admin)
    address = reverse(f"admin:{model}_changelist")
    assert client.get(address).status_code == 200
    assert client.get(f"{address}?{lookup}=a").status_code == 400


def test_the_history_of_a_person_stays_in_the_workspace(world: World) -> None:
    people.set_membership(None, world.elsewhere, world.bob)
    AuditEntry.objects.filter(workspace=world.elsewhere, object_id=world.bob.uid).update(action="membership.elsewhere")
    text = signed_in(world.admin).get(reverse("admin:kernel_user_history", args=[world.bob.pk])).content.decode()
    assert "membership.set" in text
    assert "membership.elsewhere" not in text


def test_a_narrowed_key_breaks_no_glass_outside_its_list(world: World, closed: KnowledgeBase) -> None:
    key, secret = keys.create(
        world.principal(world.admin), name="k", scopes=["admin", "kb:manage", "kb:read"], base_ids=[world.base.pk]
    )
    assert closed.pk not in (for_key(key).base_ids or ())
    response = Client(headers={"X-API-Key": secret}).post(
        f"/api/v1/bases/{closed.uid}/break-glass", {"reason": "I would like to know"}, content_type="application/json"
    )
    assert (response.status_code, response.json()["code"]) == (422, "not_sensitive")
    assert not Grant.objects.filter(base=closed, user=world.admin).exists()


def test_an_admin_who_closes_a_base_to_themselves_is_answered(world: World) -> None:
    response = signed_in(world.admin).patch(
        f"/api/v1/bases/{world.base.uid}", {"sensitive": True}, content_type="application/json"
    )
    assert (response.status_code, response.content) == (204, b"")
    world.base.refresh_from_db()
    assert world.base.sensitive


# -- names ----------------------------------------------------------------------------------------


def name_of(length: int, first: int = 0x4E00) -> str:
    """Chinese characters that do not repeat, so that no index compresses them."""
    return "".join(chr(first + 7 * place % 20_000) for place in range(length))


def test_names_and_folders_of_any_length_are_taken(world: World) -> None:
    alice = world.principal(world.alice)
    received = put(alice, world.base, f"{name_of(390)}.md", "# A\n\ntext", folder=name_of(800))
    document = received.document
    assert document.name.endswith(".md")
    assert len(document.name.encode()) <= 255
    assert len(document.source_key) <= 1000


def test_long_names_that_differ_at_their_end_are_different_documents(world: World) -> None:
    alice = world.principal(world.alice)
    for folder, name in (("", f"{name_of(300)}{{}}.md"), (f"{name_of(700)}{{}}", "same.md")):
        received = [
            put(alice, world.base, name.format(end), f"# A\n\n{folder[:1]}{end}", folder=folder.format(end))
            for end in ("甲", "乙")
        ]
        assert [one.status for one in received] == ["created", "created"]


def test_a_shortened_path_is_not_shortened_again(world: World) -> None:
    folder, name = intake.clean_path(f"{name_of(800)}/{name_of(300)}.md")
    assert intake.clean_path(f"{folder}/{name}") == (folder, name)
    assert intake.clean_path("papers/a.md") == ("papers", "a.md")


# -- time -----------------------------------------------------------------------------------------


def test_an_emergency_grant_that_has_run_out_opens_nothing(world: World, closed: KnowledgeBase) -> None:
    bases.break_glass(world.principal(world.admin), closed.uid, "because of a fire")
    client: Any = signed_in(world.admin)
    assert client.get(f"/bases/{closed.uid}/documents/").status_code == 200
    Grant.objects.filter(base=closed, user=world.admin).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert client.get(f"/bases/{closed.uid}/documents/").status_code == 404
    assert closed.uid not in client.get("/admin/knowledge/knowledgebase/").content.decode()
