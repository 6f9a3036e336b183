"""The admin as a door: who may enter, what they see, and that its buttons are the verbs."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from knowledge import bases
from knowledge.models import Document, Grant, Revision
from portal.kernel.models import AuditEntry, User
from tests.support.people import World, put

MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def list_url(model: type) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")  # type: ignore[attr-defined]


def test_a_member_who_is_no_admin_finds_no_admin(world: World) -> None:
    assert signed_in(world.alice).get("/admin/").status_code == 404
    assert signed_in(world.mallory).get(list_url(Document)).status_code == 404


def test_nobody_is_sent_to_the_sign_in_page(db: None) -> None:
    response = Client().get("/admin/")
    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_list_opens_for_a_workspace_admin_or_is_the_operators(world: World, model: type) -> None:
    put(world.principal(world.alice), world.base, "a.md", "# A\n\ntext")
    response = signed_in(world.admin).get(list_url(model))
    operator_only = admin.site._registry[model].operator_only  # type: ignore[attr-defined]
    assert response.status_code == (403 if operator_only else 200)
    operator = User.objects.create_superuser("root", password="x")
    assert signed_in(operator).get(list_url(model)).status_code == 200


def test_dashboard_counts_what_failed(world: World) -> None:
    revision = put(world.principal(world.alice), world.base, "a.md", "# A\n\ntext").revision
    assert revision is not None
    Revision.objects.filter(pk=revision.pk).update(status="failed", error_code="x")
    body = signed_in(world.admin).get("/admin/").content.decode()
    assert "status__exact=failed" in body
    assert "Open longest" in body


def test_a_foreign_row_is_as_absent_as_a_missing_one(world: World) -> None:
    client = signed_in(world.admin)
    for pk in (world.eves_base.pk, 999_999):
        assert client.get(reverse("admin:knowledge_knowledgebase_change", args=[pk])).status_code == 404


def test_a_sensitive_base_stays_closed_to_the_admin(world: World) -> None:
    bases.describe(world.principal(world.alice), world.base, sensitive=True)
    client = signed_in(world.admin)
    assert client.get(reverse("admin:knowledge_knowledgebase_change", args=[world.base.pk])).status_code == 404
    assert "Handbook" not in client.get(list_url(Grant)).content.decode()


def test_actions_call_the_verbs(world: World) -> None:
    document = put(world.principal(world.alice), world.base, "a.md", "# A\n\ntext").document
    client = signed_in(world.admin)
    response = client.post(list_url(Document), {"action": "batch_disable", "_selected_action": [document.pk]})
    assert response.status_code == 302
    document.refresh_from_db()
    assert document.enabled is False
    assert AuditEntry.objects.filter(action="document.disable", actor=world.admin).exists()


def test_a_refused_action_says_why(world: World) -> None:
    revision = put(world.principal(world.alice), world.base, "a.md", "# A\n\ntext").revision
    assert revision is not None
    client = signed_in(world.admin)
    response = client.post(list_url(Revision), {"action": "retry", "_selected_action": [revision.pk]}, follow=True)
    assert "not in a state that can be retried" in response.content.decode()


def test_a_form_changes_a_base_through_its_verb(world: World) -> None:
    client = signed_in(world.admin)
    url = reverse("admin:knowledge_knowledgebase_change", args=[world.base.pk])
    response = client.post(url, {"name": "Rules", "description": "All rules"})
    assert response.status_code == 302
    world.base.refresh_from_db()
    assert world.base.name == "Rules"
    assert AuditEntry.objects.filter(action="base.describe", actor=world.admin).exists()
    history = client.get(reverse("admin:knowledge_knowledgebase_history", args=[world.base.pk]))
    assert history.status_code == 200


def test_the_operator_makes_people_and_sees_their_password_once(db: None) -> None:
    client = signed_in(User.objects.create_superuser("root", password="x"))
    response = client.post("/admin/kernel/user/add/", {"username": "grace", "display_name": "Grace"}, follow=True)
    body = response.content.decode()
    assert "Password of grace" in body
    assert User.objects.get(username="grace").has_usable_password()
    assert "Password of grace" not in client.get("/admin/kernel/user/").content.decode()


def test_a_workspace_admin_adds_members_by_exact_user_name_only(world: World) -> None:
    client = signed_in(world.admin)
    page = client.get("/admin/kernel/membership/add/").content.decode()
    assert "Eve" not in page
    fields = {"workspace": world.workspace.pk, "role": "member"}
    assert (
        "no such person" in client.post("/admin/kernel/membership/add/", {**fields, "username": "ev"}).content.decode()
    )
    assert client.post("/admin/kernel/membership/add/", {**fields, "username": "eve"}).status_code == 302
    assert world.eve.memberships.filter(workspace=world.workspace).exists()
