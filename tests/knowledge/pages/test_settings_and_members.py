"""Settings section by section; who may use a base."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from knowledge import bases
from knowledge.models import Grant, KnowledgeBase, Role
from tests.knowledge.pages.desk import browser, text_of
from tests.support.people import World

SPLITTING = {
    "section": "splitting", "mode": "smart", "passage_tokens": "300", "leaf_tokens": "100", "overlap_tokens": "0",
    "separators": "", "patterns": "", "review": "always",
}  # fmt: skip


@pytest.fixture
def alice(world: World) -> Client:
    return browser(world.alice)


def settings_of(world: World) -> str:
    return f"/bases/{world.base.uid}/settings/"


def members_of(world: World, rest: str = "") -> str:
    return f"/bases/{world.base.uid}/members/{rest}"


def save(client: Client, world: World, **fields: Any) -> Any:
    return client.post(settings_of(world), {**SPLITTING, "version": "1", **fields})


def test_a_section_changes_only_its_own_fields(world: World, alice: Client) -> None:
    bases.save_settings(world.principal(world.alice), world.base, "searching", {"top_k": 9})
    assert save(alice, world, version="2").status_code == 302
    base = KnowledgeBase.objects.get(pk=world.base.pk)
    assert base.config["splitting"]["passage_tokens"] == 300 and base.config["splitting"]["review"] == "always"
    assert base.config["searching"]["top_k"] == 9


def test_a_change_by_somebody_else_is_shown_and_not_overwritten(world: World, alice: Client) -> None:
    bases.grant(world.principal(world.alice), world.base, Role.OWNER, user=world.bob)
    values = {**world.base.config["splitting"], "passage_tokens": 500}
    bases.save_settings(world.principal(world.bob), world.base, "splitting", values)
    late = save(alice, world)
    page = text_of(late)
    assert late.status_code == 422 and "Bob changed this; review" in page
    assert '<td data-label="Yours">300</td>' in page and '<td data-label="Now">500</td>' in page
    assert 'value="300"' in page
    assert KnowledgeBase.objects.get(pk=world.base.pk).config["splitting"]["passage_tokens"] == 500
    assert save(alice, world, version="2").status_code == 302


def test_values_out_of_range_are_422_beside_their_field_and_kept(world: World, alice: Client) -> None:
    response = save(alice, world, passage_tokens="9999")
    page = text_of(response)
    assert response.status_code == 422 and 'value="9999"' in page
    assert 'aria-invalid="true"' in page and "1 thing to fix" in page
    assert KnowledgeBase.objects.get(pk=world.base.pk).config_version == 1


def test_separators_are_written_one_a_line(world: World, alice: Client) -> None:
    save(alice, world, mode="separators", separators="\\n\\n\r\n###")
    stored = KnowledgeBase.objects.get(pk=world.base.pk).config["splitting"]["separators"]
    assert stored == ["\n\n", "###"]
    assert "\\n\\n\n###" in text_of(alice.get(settings_of(world) + "?section=splitting"))


def test_names_are_changed_but_not_over_somebody_elses_change(world: World, alice: Client) -> None:
    general = {"section": "general", "name": "Rules", "description": "", "was_name": "Handbook", "was_description": ""}
    assert alice.post(settings_of(world), general).status_code == 302
    late = alice.post(settings_of(world), {**general, "name": "Mine"})
    assert late.status_code == 422 and "Alice changed this; review" in text_of(late)
    assert KnowledgeBase.objects.get(pk=world.base.pk).name == "Rules"


def test_a_base_is_deleted_only_after_its_name_was_typed(world: World, alice: Client) -> None:
    wrong = alice.post(settings_of(world) + "delete/", {"confirm_name": "Handbok"})
    assert wrong.status_code == 422 and "exactly as it stands" in text_of(wrong)
    assert KnowledgeBase.objects.get(pk=world.base.pk).deleted_at is None
    assert alice.post(settings_of(world) + "delete/", {"confirm_name": "Handbook"}).status_code == 302
    assert alice.get(settings_of(world)).status_code == 404


def test_people_and_groups_are_added_changed_and_removed(world: World, alice: Client) -> None:
    added = alice.post(members_of(world, "add/"), {"subject": f"user:{world.mallory.uid}", "role": "editor"})
    assert added.status_code == 302
    alice.post(members_of(world, "add/"), {"subject": f"department:{world.sales.uid}", "role": "viewer"})
    grant = Grant.objects.get(base=world.base, user=world.mallory)
    alice.post(members_of(world, f"{grant.pk}/change/"), {"role": "viewer"})
    grant.refresh_from_db()
    assert grant.role == "viewer"
    alice.post(members_of(world, f"{grant.pk}/remove/"))
    assert not Grant.objects.filter(pk=grant.pk).exists()
    page = text_of(alice.get(members_of(world)))
    assert "Sales" in page and "as admin of the workspace" in page


def test_access_through_a_group_is_named(world: World, alice: Client) -> None:
    Grant.objects.filter(base=world.base, user=world.bob).delete()
    bases.grant(world.principal(world.alice), world.base, Role.VIEWER, department=world.company)
    page = text_of(alice.get(members_of(world)))
    assert "via group Company" in page and "Bob" in page


def test_the_last_manager_stays(world: World, alice: Client) -> None:
    own = Grant.objects.get(base=world.base, user=world.alice)
    for rest, data in ((f"{own.pk}/remove/", {}), (f"{own.pk}/change/", {"role": "viewer"})):
        response = alice.post(members_of(world, rest), data)
        assert response.status_code == 422
        assert "Keep at least one person who can manage this base." in text_of(response)
    own.refresh_from_db()
    assert own.role == "owner"


def test_nobody_of_another_workspace_can_be_found_or_added(world: World, alice: Client) -> None:
    found = alice.get(members_of(world, "candidates/?q=e")).json()["options"]
    assert "Eve" not in [row["name"] for row in found] and "Alice" in [row["name"] for row in found]
    refused = alice.post(members_of(world, "add/"), {"subject": f"user:{world.eve.uid}", "role": "viewer"})
    assert refused.status_code == 422 and "Choose a person or a department" in text_of(refused)
    assert not Grant.objects.filter(base=world.base, user=world.eve).exists()
    assert "Eve" not in text_of(alice.get(members_of(world)))


def test_a_grant_of_another_base_is_not_found_here(world: World, alice: Client) -> None:
    foreign = Grant.objects.get(base=world.eves_base, user=world.eve)
    assert alice.post(members_of(world, f"{foreign.pk}/remove/")).status_code == 404
    assert alice.post(members_of(world, "99999999999999999999/remove/")).status_code == 404
    assert Grant.objects.filter(pk=foreign.pk).exists()


def test_managers_who_step_down_land_where_they_still_may_be(world: World, alice: Client) -> None:
    bases.grant(world.principal(world.alice), world.base, Role.OWNER, user=world.bob)
    own = Grant.objects.get(base=world.base, user=world.alice)
    down = alice.post(members_of(world, f"{own.pk}/change/"), {"role": "viewer"})
    assert down.headers["Location"] == f"/bases/{world.base.uid}/documents/"
    away = browser(world.bob).post(members_of(world, f"{own.pk}/remove/"))
    assert away.headers["Location"] == members_of(world)
    assert alice.get(f"/bases/{world.base.uid}/documents/").status_code == 404
