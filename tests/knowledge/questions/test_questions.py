"""Questions as ways to a passage: by words and by meaning, through new revisions, and gone with what they lead to."""

from __future__ import annotations

import pytest

from knowledge import lifecycle, moving
from knowledge.chunks import verbs as chunks
from knowledge.models import Chunk, ChunkQuestion, Document, KnowledgeBase, QuestionVector
from knowledge.questions import embedding, verbs
from knowledge.retrieval import MODES, Hit, Mode, RetrievalRequest, retrieve
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry
from tests.knowledge.retrieval.library import Library
from tests.support.people import World, indexed, put, work_through

ANSWER = "Form 12-B goes to the third floor, office 304, before noon."
OTHER = "The canteen serves lunch from eleven to two."
QUESTION = "Where do I hand in my expense claim?"


@pytest.fixture
def base(library: Library, local_model: ModelEndpoint) -> KnowledgeBase:
    return library.base("Office", embedding=local_model)


@pytest.fixture
def document(library: Library, local_model: ModelEndpoint, base: KnowledgeBase) -> Document:
    vectors = embedder_for(local_model).embed_passages([ANSWER, OTHER])
    return library.document(base, "-", ANSWER, OTHER, space=space_of(local_model), vectors=vectors)


def passage(document: Document, text: str = ANSWER) -> Chunk:
    return Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="passage", text=text)


def first(library: Library, query: str, mode: Mode = "blend", who: str = "bob") -> Hit | None:
    hits = retrieve(library.principal(who), RetrievalRequest(query, mode=mode)).hits
    return hits[0] if hits else None


@pytest.mark.parametrize("mode", MODES)
def test_a_question_leads_to_its_passage_in_every_mode(library: Library, document: Document, mode: Mode) -> None:
    verbs.add(library.principal("alice"), passage(document), [QUESTION])
    assert embedding.embed_missing() == 1
    hit = first(library, "where can I hand in an expense claim", mode)
    assert hit is not None
    assert (hit.text, hit.question) == (ANSWER, QUESTION)
    assert hit.relevance > 0.4
    steps = retrieve(library.principal("bob"), RetrievalRequest(QUESTION, mode=mode)).trace["steps"]
    assert "search by questions" in [step["name"] for step in steps]


def test_a_question_is_found_by_its_words_before_it_has_a_vector(library: Library, document: Document) -> None:
    before = first(library, "expense claim", "keywords")
    assert before is None
    verbs.add(library.principal("alice"), passage(document), [QUESTION])
    hit = first(library, "expense claim", "keywords")
    assert hit is not None and hit.question == QUESTION
    assert not QuestionVector.objects.exists()


def test_a_passage_found_by_its_own_text_names_no_question(library: Library, document: Document) -> None:
    verbs.add(library.principal("alice"), passage(document), [QUESTION])
    hit = first(library, "Form 12-B third floor", "keywords")
    assert hit is not None and hit.question == "" and hit.text == ANSWER


def test_a_base_without_questions_has_no_step_for_them(library: Library, document: Document) -> None:
    steps = retrieve(library.principal("bob"), RetrievalRequest(QUESTION)).trace["steps"]
    assert "search by questions" not in [step["name"] for step in steps]


def test_the_same_question_stands_once_and_limits_hold(library: Library, document: Document) -> None:
    alice, chunk = library.principal("alice"), passage(document)
    assert len(verbs.add(alice, chunk, [QUESTION, "where do i hand in my expense claim", "Other?"])) == 2
    assert verbs.add(alice, chunk, [QUESTION.upper()]) == []
    for text in ("", "   ", "?", "x" * 501):
        with pytest.raises(Invalid) as refused:
            verbs.add(alice, chunk, [text])
        assert refused.value.code == "question_invalid"
    with pytest.raises(Invalid) as many:
        verbs.add(alice, chunk, [f"Question {n}" for n in range(99)])
    assert many.value.code == "too_many_questions"


def test_a_leaf_gives_its_question_to_its_passage(library: Library, document: Document) -> None:
    leaf = Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="leaf", text=ANSWER)
    (question,) = verbs.add(library.principal("alice"), leaf, [QUESTION])
    assert question.chunk_id == leaf.parent_id


def test_switching_rewording_and_deleting_hold_at_once(library: Library, document: Document) -> None:
    alice = library.principal("alice")
    (question,) = verbs.add(alice, passage(document), [QUESTION])
    embedding.embed_missing()
    verbs.set_enabled(alice, question, False)
    assert first(library, "expense claim", "keywords") is None
    verbs.set_enabled(alice, question, True)
    changed = verbs.change(alice, question, "How do I get my travel money back?")
    assert first(library, "expense claim", "keywords") is None
    assert not QuestionVector.objects.exists()
    hit = first(library, "travel money", "keywords")
    assert hit is not None and hit.question == changed.text
    verbs.delete(alice, changed)
    assert first(library, "travel money", "keywords") is None
    with pytest.raises(Conflict):
        verbs.delete(alice, changed)
    actions = set(AuditEntry.objects.filter(action__startswith="question.").values_list("action", flat=True))
    assert actions == {f"question.{verb}" for verb in ("add", "disable", "enable", "change", "delete")}


def test_a_generated_question_holds_for_the_text_that_it_was_made_from(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "a.md", f"# Claims\n\n{ANSWER}\n")
    row = Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="passage")
    verbs.add(None, row, ["Which room takes invoices?"], source=ChunkQuestion.Origin.GENERATED)
    verbs.add(alice, row, ["Who takes receipts?"])

    def found(query: str) -> list[str]:
        return [hit.question for hit in retrieve(alice, RetrievalRequest(query, mode="keywords")).hits]

    assert found("invoices") == ["Which room takes invoices?"]
    chunks.edit(alice, Chunk.objects.select_related("revision__document__base").get(pk=row.pk), "Ask Jim.", version=1)
    assert found("invoices") == []
    assert found("receipts") == ["Who takes receipts?"]


def test_questions_go_along_to_the_next_revision(world: World) -> None:
    alice = world.principal(world.alice)
    filler = " ".join(f"Rule {n} says that this is so and that nothing else is." for n in range(24))
    text = f"# Claims\n\n{filler}\n\n{ANSWER}\n\n# Lunch\n\n{filler}\n\n{OTHER}\n"
    document = indexed(alice, world.base, "a.md", text)
    claims, lunch = (
        Chunk.objects.defer("lexemes").filter(revision=document.active_revision, level="passage").order_by("ordinal")
    )
    verbs.add(alice, claims, ["Who takes receipts?"])
    verbs.add(alice, lunch, ["When can I eat?"])
    embedding.embed_missing()
    work_through(put(alice, world.base, "a.md", text.replace("eleven to two", "noon to three")).revision)

    def found(query: str) -> list[tuple[str, str]]:
        hits = retrieve(alice, RetrievalRequest(query, mode="keywords")).hits
        return [(hit.question, hit.text.split("\n")[-1]) for hit in hits if hit.question]

    assert found("receipts") == [("Who takes receipts?", ANSWER)]
    assert found("eat") == [("When can I eat?", OTHER.replace("eleven to two", "noon to three"))]
    document.refresh_from_db()
    assert document.active_revision is not None
    rows = {row.text: row.version for row in ChunkQuestion.objects.filter(revision=document.active_revision)}
    assert rows == {"Who takes receipts?": 1, "When can I eat?": 0}
    assert QuestionVector.objects.filter(revision=document.active_revision).count() == 2
    deleted = ChunkQuestion.objects.get(revision=document.active_revision, text="Who takes receipts?")
    verbs.delete(alice, deleted)
    lifecycle.activate(alice, document, document.revisions.get(number=1))
    assert found("receipts") == []
    assert found("eat")


def test_a_moved_document_takes_its_questions_along(library: Library, document: Document) -> None:
    verbs.add(library.principal("alice"), passage(document), [QUESTION])
    target = library.base("Elsewhere", embedding=document.base.embedding, viewers=())
    moving.move(library.principal("alice"), document, target)
    assert first(library, "expense claim", "keywords") is None
    hit = first(library, "expense claim", "keywords", "alice")
    assert hit is not None and hit.base == target.uid


def test_purging_a_base_leaves_no_question_behind(library: Library, document: Document) -> None:
    verbs.add(library.principal("alice"), passage(document), [QUESTION])
    embedding.embed_missing()
    document.revisions.all().delete()
    assert not ChunkQuestion.objects.exists() and not QuestionVector.objects.exists()
