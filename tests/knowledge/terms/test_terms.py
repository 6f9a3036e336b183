"""The terms of a base in searches and in the index, from the moment of a change on."""

from __future__ import annotations

import csv

import pytest

from knowledge import documents, moving, statistics
from knowledge.models import Chunk, KnowledgeBase, TermChange
from knowledge.retrieval import RetrievalRequest, RetrievalResult, retrieve
from knowledge.terms import overlay, retokenising, sheets, verbs
from knowledge.terms.conflicts import conflicts
from knowledge.text import Terms
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry
from tests.knowledge.retrieval.library import Library


@pytest.fixture
def base(library: Library) -> KnowledgeBase:
    return library.base("HR")


def follow(base: KnowledgeBase) -> TermChange | None:
    """Do the work that waits after a change."""
    change = TermChange.objects.filter(base=base, status="queued").first()
    while change is not None and retokenising.work(change.pk):
        pass
    if change is not None:
        change.refresh_from_db()
        assert change.status == "done", change.error_message
    base.refresh_from_db()
    statistics.fold_all()
    assert statistics.stored(base.pk) == statistics.recount(base.pk)
    return change


def ask(library: Library, query: str, *bases: KnowledgeBase) -> RetrievalResult:
    request = RetrievalRequest(query, mode="keywords", base_uids=tuple(base.uid for base in bases))
    return retrieve(library.principal("alice"), request)


def add(library: Library, base: KnowledgeBase, text: str, *synonyms: str, weight: float = 1.0) -> None:
    verbs.add(library.principal("alice"), base, verbs.wanted(text, synonyms, weight))


def test_a_synonym_finds_the_term_and_the_term_its_synonym(library: Library, base: KnowledgeBase) -> None:
    library.document(base, "a", "年假一年五天", "食堂的午餐")
    library.document(base, "b", "带薪休假要提前申请", "停车位在地下")
    before = ask(library, "带薪休假").hits
    assert [hit.document_name for hit in before] == ["b"]
    add(library, base, "年假", "带薪休假", "annual leave")
    assert {hit.text for hit in ask(library, "带薪休假").hits} == {"年假一年五天", "带薪休假要提前申请"}
    assert ask(library, "annual leave").hits[0].text == "年假一年五天"
    follow(base)
    assert {hit.text for hit in ask(library, "年假").hits} == {"年假一年五天", "带薪休假要提前申请"}
    found = ask(library, "带薪休假")
    assert found.hits[0].text == "带薪休假要提前申请"
    assert found.trace["terms"] == ["年假"]
    assert ask(library, "annual leave").hits[0].highlights


def test_only_leaves_that_hold_a_changed_word_are_written(library: Library, base: KnowledgeBase) -> None:
    document = library.document(base, "a", "云枢X1的说明", "别的东西", "another thing")
    before = dict(Chunk.objects.filter(revision__document=document, level="leaf").values_list("text", "lexemes"))
    add(library, base, "云枢X1", "CloudHub")
    change = follow(base)
    assert change is not None
    assert (change.changed, change.done, change.total) == (1, 3, 3)
    after = dict(Chunk.objects.filter(revision__document=document, level="leaf").values_list("text", "lexemes"))
    assert [text for text in after if before[text] != after[text]] == ["云枢X1的说明"]
    assert ask(library, "cloudhub").hits[0].text == "云枢X1的说明"


def test_a_term_that_is_taken_away_is_taken_out_of_the_index(library: Library, base: KnowledgeBase) -> None:
    document = library.document(base, "a", "带薪休假要申请")
    plain = Chunk.objects.get(revision__document=document, level="leaf").lexemes
    add(library, base, "年假", "带薪休假")
    follow(base)
    assert ask(library, "年假").hits
    term = verbs.terms_of(base).get()
    verbs.delete(library.principal("alice"), base, [term.uid])
    follow(base)
    assert Chunk.objects.get(revision__document=document, level="leaf").lexemes == plain
    assert not ask(library, "年假").hits


def test_new_documents_are_written_in_the_terms_of_their_moment(library: Library, base: KnowledgeBase) -> None:
    add(library, base, "年假", "带薪休假")
    library.document(base, "a", "带薪休假要申请")
    assert ask(library, "年假").hits[0].text == "带薪休假要申请"


def test_a_weight_lifts_what_holds_the_term(library: Library, base: KnowledgeBase) -> None:
    library.document(base, "a", "alpha text one", "beta text two")
    add(library, base, "beta", weight=5.0)
    follow(base)
    assert ask(library, "alpha beta").hits[0].text == "beta text two"
    verbs.change(library.principal("alice"), base, verbs.terms_of(base).get(), verbs.wanted("beta", (), 0.1))
    assert not TermChange.objects.filter(base=base, status="queued").exists()
    assert ask(library, "alpha beta").hits[0].text == "alpha text one"


def test_each_base_is_searched_in_its_own_terms(library: Library, base: KnowledgeBase) -> None:
    other = library.base("Travel")
    library.document(base, "a", "年假一年五天")
    library.document(other, "b", "年假一年十天")
    add(library, base, "年假", "vacation")
    follow(base)
    assert [hit.document_name for hit in ask(library, "vacation", base, other).hits] == ["a"]


def test_a_change_during_the_work_sends_it_back_to_its_beginning(library: Library, base: KnowledgeBase) -> None:
    library.document(base, "a", "first word", "second word")
    add(library, base, "one", "first")
    add(library, base, "two", "second")
    assert TermChange.objects.filter(base=base).count() == 1
    change = TermChange.objects.get(base=base)
    assert change.surfaces == ["first", "one", "second", "two"]
    follow(base)
    assert ask(library, "two").hits[0].text == "second word"


def test_a_disabled_document_gets_its_lexemes_and_counts_nothing(library: Library, base: KnowledgeBase) -> None:
    document = library.document(base, "a", "带薪休假要申请")
    documents.set_enabled(library.principal("alice"), document, False)
    add(library, base, "年假", "带薪休假")
    follow(base)
    documents.set_enabled(library.principal("alice"), document, True)
    assert ask(library, "年假").hits
    statistics.fold_all()
    assert statistics.stored(base.pk) == statistics.recount(base.pk)


def test_a_moved_document_is_brought_to_the_terms_of_its_new_base(library: Library, base: KnowledgeBase) -> None:
    other = library.base("Travel")
    document = library.document(other, "a", "带薪休假要申请")
    add(library, base, "年假", "带薪休假")
    follow(base)
    moving.move(library.principal("alice"), document, base)
    follow(base)
    assert ask(library, "年假").hits[0].document == document.uid


def test_the_same_term_twice_is_refused_and_what_does_not_fit_is_reported(
    library: Library, base: KnowledgeBase
) -> None:
    add(library, base, "年假", "休假")
    with pytest.raises(Conflict, match="there already") as taken:
        add(library, base, "年 假".replace(" ", ""), "x")
    assert taken.value.code == "term_taken"
    add(library, base, "病假", "休假")
    add(library, base, "Laptop", "notebook")
    add(library, base, "Notebook", "ＬＡＰＴＯＰ")
    add(library, base, "Holiday", "病假")
    kinds = {(one.kind, one.word) for one in conflicts(verbs.terms_of(base))}
    assert kinds == {("synonym_twice", "休假"), ("cycle", "Laptop"), ("term_is_synonym", "病假")}


@pytest.mark.parametrize(
    ("text", "synonyms", "weight", "code"),
    [
        ("", (), 1.0, "term_invalid"),
        ("\u200b", (), 1.0, "term_invalid"),
        ("x" * 101, (), 1.0, "term_invalid"),
        ("x", ("y" * 101,), 1.0, "term_invalid"),
        ("x", tuple(map(str, range(51))), 1.0, "synonyms_invalid"),
        ("x", (), 0.0, "weight_invalid"),
        ("x", (), float("nan"), "weight_invalid"),
    ],
)
def test_what_is_no_term_is_refused(text: str, synonyms: tuple[str, ...], weight: float, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        verbs.wanted(text, synonyms, weight)
    assert refused.value.code == code


def test_a_base_without_terms_costs_no_statement(
    library: Library, base: KnowledgeBase, django_assert_num_queries: object
) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        assert overlay.overlay(base.pk, base.terms_version) is None
    add(library, base, "年假")
    base.refresh_from_db()
    assert isinstance(overlay.overlay(base.pk, base.terms_version), Terms)
    assert AuditEntry.objects.filter(action="term.add", object_id=base.uid).exists()


def test_terms_that_look_like_formulas_run_in_no_spreadsheet_and_come_back_as_they_were(
    library: Library, base: KnowledgeBase
) -> None:
    verbs.add(library.principal("alice"), base, verbs.wanted("=HYPERLINK(1)", ["@SUM(1)", "-2+3"]))
    sheet = sheets.as_csv(verbs.terms_of(base))
    rows = list(csv.reader(sheet.splitlines()))
    assert all(cell[:1] not in {"=", "+", "-", "@"} for row in rows for cell in row), rows
    (again,) = sheets.judge([("", number, row) for number, row in enumerate(rows, 1)]).terms
    assert (again.text, list(again.synonyms)) == ("=HYPERLINK(1)", ["@SUM(1)", "-2+3"])
