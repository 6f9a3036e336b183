from __future__ import annotations

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from knowledge.models import BaseTerm, Chunk, Document, Revision
from knowledge.verification import verify
from portal.kernel import audit
from portal.kernel.models import AuditEntry
from tests.knowledge.retrieval.library import Library, make_library

pytestmark = pytest.mark.django_db


@pytest.fixture
def library(db: None) -> Library:
    library = make_library()
    base = library.base("Manual")
    document = library.document(base, "a", "old text")
    library.revise(document, "new text", "more text")
    library.document(base, "off", "hidden", enabled=False)
    library.document(library.base("Away", owner="eve", viewers=()), "b", "theirs")
    for pk in Document.objects.filter(enabled=False).values_list("base_id", "active_revision_id"):
        # `library.document` counts every document it publishes; a disabled one does not count.
        from knowledge import statistics

        statistics.append(*pk, sign=-1)
    audit.record(library.principal("alice"), "base.create")
    audit.seal_committed()
    return library


def wrong() -> list[str]:
    return [finding.name for finding in verify() if not finding.ok]


def test_everything_holds_in_an_ordinary_library(library: Library) -> None:
    assert wrong() == []


def test_an_active_revision_that_is_not_indexed_is_noticed(library: Library) -> None:
    Revision.objects.filter(document__name="a").update(status="failed")
    assert wrong() == ["active revisions"]


def test_a_lost_chunk_is_noticed(library: Library) -> None:
    Chunk.objects.filter(text="more text", level="leaf").delete()
    assert "complete" in wrong()


def test_wrong_statistics_are_noticed_and_repaired(library: Library) -> None:
    BaseTerm.objects.create(base=Document.objects.get(name="b").base, lexeme="ghost", chunks=3)
    assert wrong() == ["word statistics"]
    assert all(finding.ok for finding in verify(repair=True))
    assert wrong() == []


def test_a_changed_audit_line_is_noticed(library: Library) -> None:
    AuditEntry.objects.update(action="base.delete")
    assert wrong() == ["audit log"]


def test_the_command_prints_one_object_and_fails_when_something_is_wrong(
    library: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("verify", "--json")
    assert json.loads(capsys.readouterr().out)["ok"] is True
    AuditEntry.objects.update(action="base.delete")
    with pytest.raises(CommandError):
        call_command("verify", "--json")
    assert json.loads(capsys.readouterr().out)["ok"] is False
