"""The batches' verbs as actions of the admin: same scope, same outcomes."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from knowledge.models import Batch, Document, Tag
from tests.knowledge.pages.desk import browser, text_of
from tests.support.people import World, put


@pytest.fixture
def adam(world: World) -> Client:
    return browser(world.admin)


def act(client: Client, verb: str, *rows: Document) -> str:
    data = {"action": f"batch_{verb}", "_selected_action": [row.pk for row in rows]}
    return text_of(client.post(reverse("admin:knowledge_document_changelist"), data, follow=True))


def test_an_action_is_a_batch_with_an_outcome_for_each_document(world: World, adam: Client) -> None:
    rows = [put(world.principal(world.alice), world.base, f"{n}.md", f"# {n}\n\nwords").document for n in range(2)]
    page = act(adam, "disable", *rows)
    assert "Disable in Handbook: 2 done" in page
    assert not Document.objects.filter(enabled=True).exists()
    batch = Batch.objects.get()
    assert (batch.verb, batch.created_by) == ("disable", world.admin)
    assert "is still being processed" in act(adam, "reindex", *rows)


def test_a_verb_that_asks_shows_the_form_of_the_pages(world: World, adam: Client) -> None:
    row = put(world.principal(world.alice), world.base, "a.md", "# A\n\nwords").document
    page = act(adam, "move", row)
    assert f'action="/bases/{world.base.uid}/documents/bulk/"' in page
    assert not Batch.objects.exists()


def test_documents_of_other_workspaces_can_not_be_chosen(world: World, adam: Client) -> None:
    eves = put(world.principal(world.eve), world.eves_base, "e.md", "# E\n\nwords").document
    act(adam, "delete", eves)
    assert Document.objects.get(pk=eves.pk).deleted_at is None
    assert not Batch.objects.exists()


@pytest.mark.parametrize("model", ["batch", "batchitem", "archive", "tag"])
def test_lists_open_and_batches_are_undone_there(world: World, adam: Client, model: str) -> None:
    row = put(world.principal(world.alice), world.base, "a.md", "# A\n\nwords").document
    act(adam, "disable", row)
    Tag.objects.create(base=world.base, name="HR", folded="hr")
    assert adam.get(reverse(f"admin:knowledge_{model}_changelist")).status_code == 200
    data = {"action": "undo_chosen", "_selected_action": [Batch.objects.get().pk]}
    adam.post(reverse("admin:knowledge_batch_changelist"), data)
    assert Document.objects.get(pk=row.pk).enabled
