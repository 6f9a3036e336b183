"""Questions when their passages are merged and cut by hand, and when that is undone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from knowledge.chunks import verbs as chunks
from knowledge.models import Chunk, ChunkQuestion, Document, QuestionVector
from knowledge.questions import embedding, verbs
from knowledge.retrieval import MODES, Mode, RetrievalRequest, retrieve
from portal.kernel.principal import Principal
from tests.support.people import World, indexed

CLAIMS = "Form 12-B goes to office 304 before noon."
LUNCH = "The canteen serves lunch from eleven to two."
_RULES = " ".join(f"Rule {n} says that this is so and that nothing else is." for n in range(24))
TEXT = f"# Claims\n\n{_RULES}\n\n{CLAIMS}\n\n# Lunch\n\n{_RULES}\n\n{LUNCH}\n"
RECEIPTS, EAT = "Who takes receipts of travellers?", "When is the restaurant open?"


@dataclass
class House:
    alice: Principal
    document: Document

    def passages(self) -> list[Chunk]:
        rows = Chunk.objects.filter(revision__document=self.document, level="passage").order_by("ordinal")
        return list(rows.defer("lexemes").select_related("revision__document__base", "revision__space"))

    def found(self, query: str, mode: Mode = "keywords") -> list[tuple[str, int]]:
        hits = retrieve(self.alice, RetrievalRequest(query, mode=mode)).hits
        return [(hit.question, hit.chunk) for hit in hits if hit.question]

    def of(self, chunk: Chunk) -> list[str]:
        return sorted(row.text for row in verbs.of_passages([chunk.pk]).get(chunk.pk, []))

    def merge(self) -> chunks.Change:
        first, second = self.passages()[:2]
        return chunks.merge(self.alice, first, version=first.version, next_version=second.version)

    def undo(self, change: chunks.Change) -> chunks.Change:
        return chunks.undo(self.alice, self.passages()[0].revision, change.uid)


@pytest.fixture
def house(world: World) -> House:
    alice = world.principal(world.alice)
    made = House(alice, indexed(alice, world.base, "house.md", TEXT))
    claims, lunch = made.passages()
    verbs.add(alice, claims, [RECEIPTS])
    verbs.add(alice, lunch, [EAT])
    verbs.add(None, lunch, ["Which hall serves soup?"], source=ChunkQuestion.Origin.GENERATED)
    embedding.embed_missing()
    return made


@pytest.mark.parametrize("mode", MODES)
def test_a_merged_passage_answers_the_questions_of_both(house: House, mode: Mode) -> None:
    house.merge()
    (whole,) = house.passages()
    assert house.found(RECEIPTS, mode)[0] == (RECEIPTS, whole.pk)
    assert house.found(EAT, mode)[0] == (EAT, whole.pk)
    assert house.found("soup hall", "keywords") == [("Which hall serves soup?", whole.pk)]


def test_undoing_a_merge_gives_each_its_own_questions_and_undoing_that_joins_them_again(house: House) -> None:
    claims, lunch = house.passages()
    undone = house.undo(house.merge())
    assert [house.of(row) for row in house.passages()] == [[RECEIPTS], [EAT, "Which hall serves soup?"]]
    assert house.found(EAT) == [(EAT, lunch.pk)]
    assert house.found("soup") == [("Which hall serves soup?", lunch.pk)]
    house.undo(undone)
    assert house.of(house.passages()[0]) == sorted([RECEIPTS, EAT, "Which hall serves soup?"])
    assert house.found(EAT) == [(EAT, claims.pk)]
    # The copies bring their vectors along: nothing waits for a model.
    copies = ChunkQuestion.objects.filter(chunk=claims)
    assert QuestionVector.objects.filter(question__in=copies).count() == copies.count() == 3


def test_a_question_that_both_have_stands_once_and_stays_with_both_after_an_undo(house: House) -> None:
    claims, lunch = house.passages()
    verbs.add(house.alice, claims, [EAT])
    change = house.merge()
    assert house.of(house.passages()[0]).count(EAT) == 1
    house.undo(change)
    assert EAT in house.of(claims) and EAT in house.of(lunch)


def test_what_was_deleted_or_reworded_after_a_merge_does_not_come_back_with_its_undo(house: House) -> None:
    claims, lunch = house.passages()
    change = house.merge()
    verbs.delete(house.alice, ChunkQuestion.objects.get(chunk=claims, text=EAT))
    verbs.change(house.alice, ChunkQuestion.objects.get(chunk=claims, text__contains="soup"), "Where is soup sold?")
    house.undo(change)
    assert house.of(lunch) == []
    assert house.of(claims) == sorted([RECEIPTS, "Where is soup sold?"])


def test_cutting_a_passage_sends_each_question_to_the_part_that_answers_it(house: House) -> None:
    house.merge()
    (whole,) = house.passages()
    verbs.add(house.alice, whole, ["Is Rule 7 so?"])
    embedding.embed_missing()
    change = chunks.cut(house.alice, whole, whole.text.index("The canteen"), version=whole.version)
    first, second = house.passages()
    assert LUNCH in second.text and CLAIMS in first.text
    assert house.of(second) == [EAT, "Which hall serves soup?"]
    assert house.of(first) == ["Is Rule 7 so?", RECEIPTS]
    assert house.found(EAT)[0] == (EAT, second.pk)
    assert house.found("soup") == [("Which hall serves soup?", second.pk)]
    house.undo(change)
    assert house.of(house.passages()[0]) == sorted([RECEIPTS, EAT, "Which hall serves soup?", "Is Rule 7 so?"])
    assert house.found(EAT)[0] == (EAT, whole.pk)


def test_a_question_without_a_vector_goes_by_its_words(house: House) -> None:
    house.merge()
    QuestionVector.objects.all().delete()
    (whole,) = house.passages()
    verbs.add(house.alice, whole, ["Lunch in the canteen?"])
    QuestionVector.objects.all().delete()
    chunks.cut(house.alice, whole, whole.text.index("The canteen"), version=whole.version)
    first, second = house.passages()
    assert house.of(second) == ["Lunch in the canteen?", "Which hall serves soup?"]
    assert RECEIPTS in house.of(first)
