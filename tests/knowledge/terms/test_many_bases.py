"""A thousand bases with terms of their own cost a search as many statements as two, and share one dictionary."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from knowledge import statistics
from knowledge.models import BaseTerm, Grant, KnowledgeBase, Role, Term
from knowledge.retrieval import RetrievalRequest, RetrievalResult, retrieve
from knowledge.terms import overlay
from knowledge.text import dictionary
from portal.gateway.embedding import ensure_local_endpoint
from tests.knowledge.retrieval.library import Library

BASES = 1_000


@pytest.fixture
def bases(library: Library) -> list[KnowledgeBase]:
    """Each with a term and a synonym of its own; the last one holds a document, the others a count of a leaf."""
    endpoint, owner = ensure_local_endpoint(), library.people["alice"]
    made = KnowledgeBase.objects.bulk_create(
        KnowledgeBase(workspace=library.home, name=f"Base {number}", embedding=endpoint, terms_version=1)
        for number in range(BASES)
    )
    Grant.objects.bulk_create(Grant(base=base, user=owner, role=Role.OWNER) for base in made)
    Term.objects.bulk_create(
        Term(base=base, text=f"产品{number}", synonyms=[f"alias{number}"]) for number, base in enumerate(made)
    )
    BaseTerm.objects.bulk_create(BaseTerm(base=base, lexeme="", chunks=1, words=9) for base in made[:-1])
    library.document(made[-1], "a", f"产品{BASES - 1} 的说明书", "食堂的午餐")
    statistics.fold_all()
    return made


def ask(library: Library, query: str, *asked: KnowledgeBase) -> tuple[RetrievalResult, int]:
    """The result, and how many statements it took."""
    request = RetrievalRequest(query, mode="keywords", base_uids=tuple(base.uid for base in asked))
    with CaptureQueriesContext(connection) as said:
        result = retrieve(library.principal("alice"), request)
    return result, len(said)


def test_a_search_over_a_thousand_bases_with_terms_takes_as_many_statements_as_over_two(
    library: Library, bases: list[KnowledgeBase]
) -> None:
    query = f"alias{BASES - 1}"
    few, statements = ask(library, query, *bases[-2:])
    many, of_many = ask(library, query)
    assert [hit.base for hit in few.hits] == [hit.base for hit in many.hits] == [bases[-1].uid]
    assert many.trace["terms"] == [f"产品{BASES - 1}"]
    assert of_many == statements
    again, of_again = ask(library, query)
    assert again.hits == many.hits
    assert of_again == of_many - 1  # what the terms are is known by now


def test_terms_of_a_thousand_bases_are_read_in_one_statement_and_make_no_dictionary(
    bases: list[KnowledgeBase],
) -> None:
    before = dictionary.dictionary()
    with CaptureQueriesContext(connection) as said:
        found = overlay.overlays((base.pk, 1) for base in bases)
    assert len(said) == 1
    assert len(found) == BASES
    assert found[bases[7].pk].lexemes_of("alias7") == ("产品7",)
    assert dictionary.dictionary() is before


def test_the_longest_unused_terms_are_given_up_when_there_are_too_many(
    bases: list[KnowledgeBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "_MOST", 30)
    kept = overlay._Kept()
    monkeypatch.setattr(overlay, "_kept", kept)
    overlay.overlays((base.pk, 1) for base in bases[:8])
    overlay.overlay(bases[0].pk, 1)
    overlay.overlays((base.pk, 1) for base in bases[8:12])
    still, gone = kept.take([(base.pk, 1) for base in bases[:12]])
    assert (bases[0].pk, 1) in still
    assert (bases[1].pk, 1) in gone
    assert sum(1 + len(terms.surfaces) for terms in still.values()) <= 30
