from __future__ import annotations

import threading

import pytest
from django.db import connection, connections, transaction

from knowledge import statistics
from knowledge.models import BaseTerm, RevisionTerms
from tests.knowledge.retrieval.library import Library, make_library


@pytest.mark.django_db
def test_folding_changes_nothing_that_queries_see(library: Library) -> None:
    base = library.base("Manual")
    library.document(base, "a", "red green", "green blue")
    library.document(base, "b", "blue blue")
    before = statistics.stored(base.pk)
    assert statistics.read([base.pk], ["blue"])[base.pk].frequencies == {"blue": 2}
    assert statistics.fold_all() == 2
    assert not RevisionTerms.objects.exists()
    assert statistics.stored(base.pk) == before == statistics.recount(base.pk)


@pytest.mark.django_db
def test_a_superseded_revision_takes_its_counts_away(library: Library) -> None:
    base = library.base("Manual")
    document = library.document(base, "a", "old words", "more old")
    statistics.fold_all()
    library.revise(document, "new words")
    assert statistics.stored(base.pk) == statistics.recount(base.pk)
    statistics.fold_all()
    assert statistics.stored(base.pk) == statistics.recount(base.pk)
    assert not BaseTerm.objects.filter(lexeme="old").exists()


@pytest.mark.django_db
def test_repair_replaces_wrong_counts_and_leaves_right_ones(library: Library) -> None:
    base = library.base("Manual")
    library.document(base, "a", "red green")
    assert statistics.repair(base.pk) is False
    BaseTerm.objects.create(base=base, lexeme="ghost", chunks=7)
    assert statistics.repair(base.pk) is True
    assert statistics.stored(base.pk) == statistics.recount(base.pk)


@pytest.mark.django_db
def test_bases_do_not_mix(library: Library) -> None:
    one, other = library.base("One"), library.base("Other")
    library.document(one, "a", "red")
    library.document(other, "a", "red", "red")
    found = statistics.read([one.pk, other.pk], ["red"])
    assert (found[one.pk].frequencies["red"], found[other.pk].frequencies["red"]) == (1, 2)
    assert (found[one.pk].chunks, found[other.pk].chunks) == (1, 2)


@pytest.mark.django_db(transaction=True)
def test_two_writers_append_and_a_folder_folds_without_waiting_for_each_other() -> None:
    library = make_library()
    base = library.base("Manual")
    first = library.document(base, "a", "red green").active_revision
    second = library.document(base, "b", "green blue").active_revision
    assert first and second
    done = threading.Event()

    def other_writer() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            statistics.append(base.pk, second.pk, sign=-1)
            statistics.fold_all()
            done.set()
        finally:
            connections.close_all()

    with transaction.atomic():
        statistics.append(base.pk, first.pk, sign=-1)
        thread = threading.Thread(target=other_writer)
        thread.start()
        thread.join(10)
        assert done.is_set()
    statistics.fold_all()
    assert statistics.stored(base.pk) == {}
