from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge import asking, documents, threads
from knowledge.models import CaseTarget, Chunk, EvaluationCase, QueryRecord
from knowledge.quality import cases, feedback, judging, sheet
from knowledge.quality.cases import Target
from knowledge.retrieval import Hit, RetrievalRequest
from portal.kernel.errors import Conflict, Denied, Invalid, NotFound
from portal.kernel.models import User
from tests.support.people import World, indexed

HANDBOOK = "# Leave\n\nEmployees have ten days of annual leave in a year.\n\n# Travel\n\nTrains are in second class.\n"


@pytest.fixture
def library(world: World) -> World:
    alice = world.principal(world.alice)
    indexed(alice, world.base, "leave.md", HANDBOOK, folder="hr")
    indexed(alice, world.base, "leave.md", "# Old leave\n\nFive days.\n", folder="archive")
    return world


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def imported(world: World, text: str, name: str = "set.csv") -> sheet.Imported:
    return sheet.import_file(world.principal(world.alice), world.base, text.encode(), name)


# Files


def test_rows_with_the_same_question_are_one_case(library: World) -> None:
    done = imported(
        library,
        "question,document,snippet,grade\nHow much leave?,hr/leave.md,,2\nhow much leave?,,ten days of annual leave,\n",
    )
    assert (done.added, done.known, done.problems) == (1, 0, [])
    case = EvaluationCase.objects.get(base=library.base)
    assert [(row.document is not None, row.snippet, row.grade) for row in case.targets.all()] == [
        (True, "", 2),
        (False, "ten days of annual leave", 1),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (",hr/leave.md,,1", "no question"),
        ("q,,,1", "Name a document"),
        ("q,nothing.md,,1", "no document nothing.md"),
        ("q,leave.md,,1", "several documents named leave.md"),
        ("q,hr/leave.md,,11", "from 1 to 10"),
        ("q,hr/leave.md,,many", "from 1 to 10"),
    ],
)
def test_a_wrong_row_is_told_with_its_number_and_the_others_are_kept(library: World, row: str, said: str) -> None:
    done = imported(library, f"question,document,snippet,grade\n{row}\ngood,hr/leave.md,,\n")
    assert done.added == 1
    assert [problem.row for problem in done.problems] == [2]
    assert said in done.problems[0].sentence()


def test_json_lines_and_chinese_heads_are_read(library: World) -> None:
    assert imported(library, '{"question": "a", "snippet": "x"}\nnonsense\n[1]\n', "set.jsonl").added == 1
    assert imported(library, "问题,片段\n年假几天,十天\n").added == 1


def test_a_chunk_is_kept_as_its_text(library: World) -> None:
    leaf = Chunk.objects.filter(level="leaf", revision__document__folder="hr").order_by("pk").first()
    assert leaf is not None
    assert imported(library, f"question,chunk\nq,{leaf.pk}\n").added == 1
    assert CaseTarget.objects.get().snippet == leaf.text.strip()


def test_another_bases_chunk_is_no_chunk_of_this_base(library: World) -> None:
    eve = library.principal(library.eve)
    indexed(eve, library.eves_base, "hers.md", "# Hers\n\nSecret.\n")
    chunk = Chunk.objects.filter(revision__document__base=library.eves_base).first()
    assert chunk is not None
    done = imported(library, f"question,chunk\nq,{chunk.pk}\n")
    assert done.added == 0 and "no chunk" in done.problems[0].sentence()


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00\x01"])
def test_a_file_without_a_question_column_is_refused(library: World, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        imported(library, text)
    assert refused.value.code == "case_file_invalid"


def test_a_known_question_is_counted_and_not_added_again(library: World) -> None:
    text = "question,document\nq,hr/leave.md\n"
    imported(library, text)
    assert (imported(library, text).added, imported(library, text).known) == (0, 1)
    with pytest.raises(Conflict):
        cases.add(library.principal(library.alice), library.base, " Q ", [Target(None, "x")])


# Judging


def hit(document: str, chunk: int, text: str) -> Hit:
    return cast(Hit, SimpleNamespace(document=document, chunk=chunk, text=text, relevance=0.5))


def target(document: str | None, snippet: str = "", grade: int = 1) -> CaseTarget:
    named = SimpleNamespace(uid=document) if document else None
    return cast(CaseTarget, SimpleNamespace(document=named, snippet=snippet, grade=grade))


def test_a_document_counts_once_by_its_best_passage() -> None:
    found = judging.judged([hit("a", 1, ""), hit("a", 2, ""), hit("b", 3, "")], [target("b")])
    assert found.rank == 2 and [place.document for place in found.places] == ["a", "b"]


def test_an_expected_text_counts_wherever_the_split_has_put_it() -> None:
    snippet = "Backups are kept for 35 days, then they are deleted for good."
    whole = hit("a", 1, f"Before. {snippet} After.")
    half = hit("a", 2, "Backups are kept for 35 days,")
    other = hit("a", 3, "Servers are restarted on Sundays, after the backups were made.")
    for found, rank in ((whole, 1), (half, 1), (other, None)):
        assert judging.judged([found], [target("a", snippet)]).rank == rank


def test_an_expected_text_of_one_document_is_not_found_in_another() -> None:
    assert judging.judged([hit("b", 1, "kept for 35 days")], [target("a", "kept for 35 days")]).rank is None


def test_a_repeated_passage_takes_no_rank() -> None:
    found = judging.judged(
        [hit("a", 1, "the first answer"), hit("a", 2, "the first answer"), hit("b", 3, "the second answer")],
        [target(None, "the first answer"), target(None, "the second answer")],
    )
    assert [place.grade for place in found.places] == [1, 1]


# Pages and feedback


def test_a_hit_is_saved_as_a_case_and_a_second_one_joins_it(library: World) -> None:
    client = browser(library.alice)
    for chunk in Chunk.objects.filter(level="passage", revision__document__folder="hr"):
        answer = client.post(
            f"/bases/{library.base.uid}/evaluation/cases/from-hit/", {"q": "leave?", "chunk": str(chunk.pk)}
        )
        assert answer.status_code == 302
    case = EvaluationCase.objects.get(base=library.base)
    assert case.targets.count() == Chunk.objects.filter(level="passage", revision__document__folder="hr").count()
    assert case.origin == "hit_test"


def test_a_viewer_can_not_save_cases_and_sees_no_button(library: World) -> None:
    client = browser(library.bob)
    chunk = Chunk.objects.filter(level="passage").first()
    assert chunk is not None
    address = f"/bases/{library.base.uid}/evaluation/"
    assert client.post(f"{address}cases/from-hit/", {"q": "x", "chunk": str(chunk.pk)}).status_code == 403
    assert client.get(address).status_code == 403
    page = client.post(f"/bases/{library.base.uid}/hit-test/columns/", {"q": "leave", "mode": "keywords"})
    assert b"Save as case" not in page.content
    page = browser(library.alice).post(
        f"/bases/{library.base.uid}/hit-test/columns/", {"q": "leave", "mode": "keywords"}
    )
    assert b"Save as case" in page.content


def test_a_file_is_uploaded_on_the_page_with_its_problems(library: World) -> None:
    file = SimpleUploadedFile("set.csv", b"question,document\nq,hr/leave.md\n,hr/leave.md\n")
    page = browser(library.alice).post(f"/bases/{library.base.uid}/evaluation/cases/upload/", {"file": file})
    assert b"1 question added" in page.content and b"Row 3" in page.content


def asked(world: World, user: User) -> QueryRecord:
    request = RetrievalRequest("annual leave", base_uids=(world.base.uid,))
    _, record = asking.ask(world.principal(user), request, kind=QueryRecord.Kind.ASK, thread="t" * 16)
    assert record is not None
    return record


def test_a_helpful_answer_becomes_a_case_of_the_bases_that_its_asker_may_edit(library: World) -> None:
    alice = library.principal(library.alice)
    record = asked(library, library.alice)
    with pytest.raises(Conflict):
        feedback.save(alice, record.thread, record.uid)
    threads.rate(alice, record.thread, record.uid, True)
    assert feedback.save(alice, record.thread, record.uid) == 1
    case = EvaluationCase.objects.get(base=library.base)
    assert (case.question, case.origin) == ("annual leave", "rated")


def test_a_viewers_rating_makes_no_case_and_a_stranger_finds_nothing(library: World) -> None:
    record = asked(library, library.bob)
    bob = library.principal(library.bob)
    threads.rate(bob, record.thread, record.uid, True)
    with pytest.raises(Denied):
        feedback.save(bob, record.thread, record.uid)
    with pytest.raises(NotFound):
        feedback.save(library.principal(library.alice), record.thread, record.uid)


def test_a_case_does_not_show_the_text_of_a_document_in_the_bin(library: World) -> None:
    alice = library.principal(library.alice)
    document = library.base.documents.get(folder="hr")
    cases.add(alice, library.base, "leave?", [Target(document, "ten days of annual leave")])
    documents.delete(alice, document)
    page = browser(library.alice).get(f"/bases/{library.base.uid}/evaluation/cases/").content.decode()
    assert "ten days" not in page and "No longer in this base" in page


# The API


def test_the_api_adds_lists_changes_and_deletes_cases_and_runs(library: World) -> None:
    client = browser(library.alice)
    home = f"/api/v1/bases/{library.base.uid}"
    body: dict[str, Any] = {
        "question": "How many days of annual leave?",
        "expected": [{"document": "hr/leave.md", "grade": 2}],
    }
    made = client.post(f"{home}/cases/", body, "application/json")
    assert made.status_code == 201, made.content
    uid = made.json()["id"]
    assert client.get(f"{home}/cases/").json()["results"][0]["expected"][0]["grade"] == 2
    assert client.patch(f"/api/v1/cases/{uid}/", {"enabled": False}, "application/json").json()["enabled"] is False
    refused = client.post(f"{home}/evaluations/", {}, "application/json")
    assert (refused.status_code, refused.json()["code"]) == (422, "no_cases")
    client.patch(f"/api/v1/cases/{uid}/", {"enabled": True}, "application/json")
    started = client.post(f"{home}/evaluations/", {"label": "first"}, "application/json")
    assert started.status_code == 202
    run = started.json()["id"]
    from knowledge.models import EvaluationRun
    from knowledge.quality import runs

    while runs.work(EvaluationRun.objects.get(uid=run).pk):
        pass
    shown = client.get(f"/api/v1/evaluations/{run}/").json()
    assert shown["status"] == "done" and shown["measures"]["keywords"]["recall@5"] == 1
    results = client.get(f"/api/v1/evaluations/{run}/results/?variant=keywords").json()["results"]
    assert [row["rank"] for row in results] == [1]
    assert client.delete(f"/api/v1/cases/{uid}/").status_code == 204


def test_saving_an_answer_as_a_case_rates_it_and_only_editors_are_offered_it(library: World) -> None:
    record = asked(library, library.alice)
    client = browser(library.alice)
    address = f"/ask/{record.thread}/{record.uid}/case/"
    assert address in client.get(f"/ask/{record.thread}/").content.decode()
    assert client.post(address).status_code == 302
    record.refresh_from_db()
    assert record.helpful is True and EvaluationCase.objects.filter(base=library.base).count() == 1
    theirs = asked(library, library.bob)
    assert "/case/" not in browser(library.bob).get(f"/ask/{theirs.thread}/").content.decode()
