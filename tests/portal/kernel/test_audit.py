"""The chain of the audit log: whole under concurrent writers, broken by whoever touches a row."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from portal.kernel import audit
from portal.kernel.models import AuditEntry
from tests.support.people import World

LATER = datetime(2040, 1, 1, tzinfo=UTC)


def written(count: int) -> list[AuditEntry]:
    for number in range(count):
        audit.record(None, "test.happened", number=number)
    audit.seal_committed()
    return list(AuditEntry.objects.order_by("position"))


@pytest.mark.django_db
def test_sealed_rows_make_one_whole_chain() -> None:
    rows = written(5)
    assert [row.position for row in rows] == [1, 2, 3, 4, 5]
    assert len({row.seal for row in rows}) == 5
    assert audit.seal_committed() == 0
    assert audit.verify() is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change", [{"action": "test.other"}, {"detail": {"number": 9}}, {"actor_id": 7}, {"at": LATER}]
)
def test_a_changed_row_breaks_the_chain_where_it_stands(change: dict[str, object]) -> None:
    rows = written(5)
    AuditEntry.objects.filter(pk=rows[2].pk).update(**change)
    assert audit.verify() == 3


@pytest.mark.django_db
def test_removed_and_exchanged_rows_break_the_chain() -> None:
    rows = written(5)
    AuditEntry.objects.filter(pk=rows[1].pk).delete()
    assert audit.verify() == 2
    AuditEntry.objects.filter(pk=rows[4].pk).update(position=2)
    assert audit.verify() == 2


@pytest.mark.django_db
def test_a_change_that_is_rolled_back_leaves_no_line(world: World) -> None:
    before = AuditEntry.objects.count()
    with pytest.raises(RuntimeError), transaction.atomic():
        audit.record(world.principal(world.alice), "test.happened", world.base)
        raise RuntimeError
    assert AuditEntry.objects.count() == before


def test_a_line_says_who_did_what_to_what_through_which_door(world: World) -> None:
    audit.record(world.principal(world.alice, "mcp"), "base.looked", world.base, base_ids=[world.base.pk], why="\x00x")
    row = AuditEntry.objects.latest("id")
    assert (row.actor, row.door, row.action) == (world.alice, "mcp", "base.looked")
    assert (row.workspace, row.object_type, row.object_id) == (world.workspace, "knowledgebase", world.base.uid)
    assert (row.base_ids, row.detail) == ([world.base.pk], {"why": "x"})


@pytest.mark.django_db(transaction=True)
def test_writers_and_sealers_at_once_leave_a_whole_chain() -> None:
    start = threading.Barrier(6)

    def write() -> None:
        start.wait()
        for number in range(20):
            with transaction.atomic():
                audit.record(None, "test.happened", number=number)
        connection.close()

    def seal() -> None:
        start.wait()
        for _ in range(20):
            audit.seal_committed()
        connection.close()

    threads = [threading.Thread(target=target) for target in (write, write, write, write, seal, seal)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    audit.seal_committed()
    positions = AuditEntry.objects.order_by("position").values_list("position", flat=True)
    assert list(positions) == list(range(1, 81))
    assert audit.verify() is None
