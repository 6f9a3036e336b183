"""Export, import, export: the same content, with and without vectors, all revisions or the current ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from django.db import models

from knowledge import documents as describe
from knowledge import storage
from knowledge.archive import writing
from knowledge.archive.contract import Reading
from knowledge.archive.parts import (
    cases,
    chunks,
    documents,
    images,
    origins,
    places,
    questions,
    revisions,
    terms,
    vectors,
    versions,
)
from knowledge.archive.parts.cases import CaseRecord
from knowledge.archive.parts.chunks import ChunkRecord
from knowledge.archive.parts.documents import DocumentRecord
from knowledge.archive.parts.images import ImageRecord
from knowledge.archive.parts.origins import OriginRecord
from knowledge.archive.parts.places import PlaceRecord
from knowledge.archive.parts.questions import QuestionRecord
from knowledge.archive.parts.revisions import RevisionRecord
from knowledge.archive.parts.terms import TermRecord
from knowledge.archive.parts.vectors import VectorRecord
from knowledge.archive.parts.versions import VersionRecord
from knowledge.metadata import Condition, condition
from knowledge.models import (
    Archive,
    Chunk,
    ChunkQuestion,
    ChunkVector,
    ChunkVersion,
    Document,
    EvaluationCase,
    Grant,
    Origin,
    PicturePlace,
    Revision,
    StoredImage,
    Tag,
    Term,
)
from knowledge.questions import verbs as asked
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import Filters, RetrievalRequest
from knowledge.terms import verbs
from knowledge.verification import verify
from tests.knowledge.archive.carrying import base_of, exported, furnish, imported, work_off
from tests.support.people import World, indexed


@pytest.mark.parametrize("vectors", [False, True], ids=["without vectors", "with vectors"])
@pytest.mark.parametrize("which", ["all", "current"])
def test_export_import_export_gives_the_same_content_hash(
    world: World, tmp_path: Path, which: str, vectors: bool
) -> None:
    base = furnish(world)
    first = exported(base, tmp_path / "first.zip", which=which, vectors=vectors)
    row = imported(world.principal(world.alice), tmp_path / "first.zip", name="Copy")
    copy = base_of(row)
    work_off(copy)
    second = exported(copy, tmp_path / "second.zip", which=which, vectors=vectors)
    assert second.content_hash == first.content_hash
    assert [(part.name, part.content) for part in second.parts if part.name != "vectors"] == [
        (part.name, part.content) for part in first.parts if part.name != "vectors"
    ]
    if vectors:
        assert second.part("vectors") == first.part("vectors")
    assert copy.pk != base.pk
    assert all(finding.ok for finding in verify()), [finding for finding in verify() if not finding.ok]


def test_vectors_of_the_same_model_make_the_copy_searchable_at_once(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip", vectors=True)
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    assert not Revision.objects.filter(base=copy, status="pending").exists()
    found = retrieve(world.principal(world.alice), RetrievalRequest("leave days", base_uids=(copy.uid,)))
    assert "Ten days a year." in found.hits[0].text
    tagged = RetrievalRequest("leave days", base_uids=(copy.uid,), filters=Filters(tags=("HR",)))
    assert {hit.document_name for hit in retrieve(world.principal(world.alice), tagged).hits} == {"policy.md"}


def test_without_vectors_only_current_revisions_are_embedded_and_nothing_is_read_again(
    world: World, tmp_path: Path
) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    waiting = Revision.objects.filter(base=copy, status="pending")
    assert set(waiting.values_list("stage", flat=True)) == {"embed"}
    assert waiting.count() == 3
    earlier = Revision.objects.get(base=copy, document__name="policy.md", number=1)
    assert (earlier.status, earlier.vectors_kept) == ("indexed", False)


def test_the_copy_is_the_importers_alone(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.mallory), tmp_path / "a.zip"))
    grants = Grant.objects.filter(base=copy)
    assert [(grant.user, grant.role) for grant in grants] == [(world.mallory, "owner")]
    assert set(Document.objects.filter(base=copy).values_list("created_by", flat=True)) == {world.mallory.pk}
    assert not set(Document.objects.filter(base=copy).values_list("uid", flat=True)) & set(
        Document.objects.filter(base=world.base).values_list("uid", flat=True)
    )


def test_an_import_never_overwrites_a_base_of_the_same_name(world: World, tmp_path: Path) -> None:
    base = furnish(world)
    exported(base, tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    assert (base.name, copy.name) == ("Handbook", "Handbook (2)")


def test_what_failed_there_has_failed_here_and_can_be_tried_again(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    failed = Revision.objects.get(base=copy, status="failed")
    assert (failed.document.name, failed.error_code) == ("broken.md", "damaged_file")
    assert failed.document.active_revision is None


def test_the_uploaded_archive_is_not_kept(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    row = imported(world.principal(world.alice), tmp_path / "a.zip")
    assert (row.file, row.kept_files) == ("", [])


TABLES: list[tuple[type[models.Model], Any, dict[str, str], dict[str, str]]] = [
    (Document, DocumentRecord, documents.LEFT_OUT, {}),
    (Origin, OriginRecord, origins.LEFT_OUT, {}),
    (Revision, RevisionRecord, revisions.LEFT_OUT, {}),
    (StoredImage, ImageRecord, images.LEFT_OUT, {}),
    (PicturePlace, PlaceRecord, places.LEFT_OUT, {}),
    (Chunk, ChunkRecord, chunks.LEFT_OUT, {}),
    (ChunkVersion, VersionRecord, versions.LEFT_OUT, {}),
    (ChunkVector, VectorRecord, vectors.LEFT_OUT, {}),
    (Term, TermRecord, terms.LEFT_OUT, {}),
    (ChunkQuestion, QuestionRecord, questions.LEFT_OUT, {}),
    (EvaluationCase, CaseRecord, cases.LEFT_OUT, {}),
]


@pytest.mark.parametrize(("model", "shape", "left_out", "_"), TABLES, ids=[row[0].__name__ for row in TABLES])
def test_every_column_is_carried_along_or_left_out_for_a_reason(
    model: type[models.Model], shape: Any, left_out: dict[str, str], _: dict[str, str]
) -> None:
    columns = {field.name for field in model._meta.concrete_fields}
    forgotten = columns - set(shape.model_fields) - set(left_out)
    assert not forgotten, f"say in knowledge/archive/parts what becomes of {sorted(forgotten)}"
    assert set(left_out) <= columns


def test_pictures_come_along_with_their_places_and_thumbnails(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    image = StoredImage.objects.get(revision__base=copy)
    there = StoredImage.objects.get(revision__base=world.base)
    assert (image.key, image.alt, image.width) == (there.key, "A valve", 640)
    assert image.file != there.file
    for name, data in ((image.file, b"large"), (image.thumbnail, b"small")):
        with storage.open_file(name) as stream:
            assert stream.read() == data
    places = PicturePlace.objects.filter(revision__base=copy)
    assert set(places.values_list("image", "recognised")) == {(image.pk, False), (None, True)}


def test_the_evaluation_set_comes_along_without_what_is_in_the_bin(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    case = EvaluationCase.objects.get(base=copy, question="How long is leave?")
    expected = [(row.document.base_id if row.document else None, row.snippet, row.grade) for row in case.targets.all()]
    assert expected == [(None, "a year", 1), (copy.pk, "Ten days", 3)]
    assert not EvaluationCase.objects.get(base=copy, question="What is gone?").targets.exists()


def test_the_vocabulary_comes_along_with_words_that_nothing_uses(world: World, tmp_path: Path) -> None:
    exported(furnish(world), tmp_path / "a.zip")
    copy = base_of(imported(world.principal(world.alice), tmp_path / "a.zip"))
    assert sorted(Tag.objects.filter(base=copy).values_list("name", flat=True)) == ["2026", "HR", "unused"]


def test_an_estimate_is_told_before_anything_is_written(world: World, tmp_path: Path) -> None:
    from knowledge import archive

    base = furnish(world)
    told = archive.estimate(base, "all", vectors=True)
    exported(base, tmp_path / "a.zip", vectors=True)
    size = (tmp_path / "a.zip").stat().st_size
    assert size / 5 < told["bytes"] < size * 5
    assert not Archive.objects.exists()


def test_terms_questions_and_metadata_come_along(world: World, tmp_path: Path) -> None:
    alice, base = world.principal(world.alice), furnish(world)
    document = Document.objects.get(base=base, name="policy.md")
    verbs.add(alice, base, verbs.wanted("Leave", ["vacation"], 2.0))
    passage = Chunk.objects.defer("lexemes").filter(revision=document.active_revision, level="passage").first()
    assert passage is not None
    asked.add(alice, passage, ["How long may I stay away?"])
    describe.describe(alice, document, metadata={"year": 2026, "regions": ["east", "west"]})
    exported(base, tmp_path / "a.zip")
    copy = base_of(imported(alice, tmp_path / "a.zip"))
    work_off(copy)

    def found(query: str, *conditions: Condition) -> list[str]:
        filters = Filters(metadata=conditions)
        hits = retrieve(alice, RetrievalRequest(query, (copy.uid,), "keywords", filters=filters)).hits
        return [hit.question or hit.document_name for hit in hits]

    assert found("vacation") == ["policy.md"]
    assert found("stay away") == ["How long may I stay away?"]
    assert found("leave", condition("year", ">=", 2026)) == ["policy.md"]
    assert found("leave", condition("regions", "=", "north")) == []


@pytest.mark.parametrize("vectors", [False, True])
def test_an_estimate_is_not_far_from_the_file(world: World, tmp_path: Path, vectors: bool) -> None:
    alice = world.principal(world.alice)
    chance = random.Random(7)
    words = [
        "".join(chance.choice("bdfklmnprst") + chance.choice("aeiou") for _ in range(n % 4 + 1)) for n in range(900)
    ]
    text = "\n\n".join(f"# Part {n}\n\n{' '.join(chance.choices(words, k=180))}." for n in range(60))
    indexed(alice, world.base, "long.md", text)
    said = writing.estimate(Reading(world.base, "all", vectors))["bytes"]
    writing.write_archive(Reading(world.base, "all", vectors), tmp_path / "archive.zip")
    assert 0.9 < said / (tmp_path / "archive.zip").stat().st_size < 3
