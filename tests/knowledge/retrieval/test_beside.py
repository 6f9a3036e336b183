"""Words on a second connection beside meaning: only outside of transactions, never waited for, the same answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from knowledge.models import Grant
from knowledge.retrieval import RetrievalRequest, RetrievalResult, beside, retrieve, words
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.meaning import Embed
from knowledge.retrieval.vectors import Asked
from portal.gateway.models import ModelEndpoint
from tests.knowledge.retrieval.library import Library, make_space
from tests.knowledge.retrieval.test_vectors import WIDTH, clustered

pytestmark = pytest.mark.django_db(transaction=True)


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """The database is emptied and dropped by others."""
    yield
    beside.close()


def test_work_runs_on_a_connection_of_its_own_and_keeps_it() -> None:
    first = beside.start(backend)()
    assert first != backend()
    assert beside.start(backend)() == first


def test_work_stays_in_the_callers_transaction() -> None:
    with transaction.atomic():
        assert beside.start(backend)() == backend()


def test_nobody_waits_for_a_busy_helper() -> None:
    go_on = threading.Event()
    waiting = [beside.start(lambda: go_on.wait(30)) for _ in range(beside.HELPERS)]
    try:
        assert beside.start(backend)() == backend()
    finally:
        go_on.set()
    assert all(result() for result in waiting)
    assert beside.start(backend)() != backend()


def test_what_no_second_connection_can_do_is_done_on_the_callers() -> None:
    own = backend()

    def work() -> int:
        if backend() != own:
            raise OperationalError("too many clients")
        return backend()

    assert beside.start(work)() == own


def test_a_connection_that_the_server_ended_is_opened_anew() -> None:
    first = beside.start(backend)()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    assert beside.start(backend)() not in {first, backend()}


def test_a_fault_of_the_work_is_the_callers() -> None:
    def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        beside.start(work)()


def steps(result: RetrievalResult) -> list[str]:
    return [step["name"] for step in result.trace["steps"]]


def test_a_blend_asked_beside_is_the_one_asked_in_turn(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = blend_of(library, monkeypatch)
    request = RetrievalRequest("rare number7", mode="blend")
    used: list[int] = []
    search = words.search

    def listening(*given: Any) -> list[Candidate]:
        used.append(backend())
        return search(*given)

    monkeypatch.setattr(words, "search", listening)
    together = retrieve(library.principal("bob"), request, asked)
    with transaction.atomic():
        in_turn = retrieve(library.principal("bob"), request, asked)
    assert used[0] != backend() == used[1]
    assert together.hits == in_turn.hits
    assert together.hits[0].parts.keys() == {"keywords", "embedding"}
    assert steps(together) == steps(in_turn)


def test_a_blend_is_whole_where_no_second_connection_is_to_be_had(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, own = blend_of(library, monkeypatch), backend()
    search = words.search

    def refused(*given: Any) -> list[Candidate]:
        if backend() != own:
            raise OperationalError("too many clients")
        return search(*given)

    monkeypatch.setattr(words, "search", refused)
    result = retrieve(library.principal("bob"), RetrievalRequest("rare number7", mode="blend"), asked)
    assert result.hits[0].parts.keys() == {"keywords", "embedding"}


def test_what_was_revoked_between_permission_and_search_is_in_neither_half(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = blend_of(library, monkeypatch)

    def revoking(endpoint: ModelEndpoint, query: str) -> Asked:
        Grant.objects.filter(user=library.people["bob"]).delete()
        return asked(endpoint, query)

    result = retrieve(library.principal("bob"), RetrievalRequest("rare number7", mode="blend"), revoking)
    found = [step["detail"]["candidates"] for step in result.trace["steps"] if step["name"].startswith("search by")]
    assert found == [0, 0]
    assert result.hits == ()


def blend_of(library: Library, monkeypatch: pytest.MonkeyPatch) -> Embed:
    """A library of which every leaf counts as large, with vectors; what a question's vector is."""
    monkeypatch.setattr(words, "SMALL", 0)
    space = make_space(dimensions=WIDTH)
    vectors = clustered(40, 4)
    base = library.base("Handbook")
    texts = [f"filler number{n} {'rare' if n % 5 == 2 else 'usual'} text" for n in range(40)]
    library.document(base, "Forty", *texts, space=space, vectors=vectors)
    return lambda endpoint, query: Asked(space, vectors[7])
