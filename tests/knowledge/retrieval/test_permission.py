"""Nothing is found that the asker may not see at this very moment, by any route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from knowledge.models import Chunk, Document, Grant, KnowledgeBase, Revision, Role
from knowledge.retrieval import MODES, Filters, Mode, RetrievalRequest, RetrievalResult, retrieve
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import ModelEndpoint
from portal.kernel.models import Department, Membership, User, bump_acl
from tests.knowledge.retrieval.library import Library

SECRET = "工资表：总经理的年薪是一百万元"
PUBLIC = "食堂今天供应红烧肉和米饭"
QUESTION = "总经理的工资是多少"


@pytest.fixture
def base(library: Library, local_model: ModelEndpoint) -> KnowledgeBase:
    return library.base("工资", embedding=local_model)


@pytest.fixture
def document(library: Library, local_model: ModelEndpoint, base: KnowledgeBase) -> Document:
    vectors = embedder_for(local_model).embed_passages([SECRET, PUBLIC])
    return library.document(base, "salaries", SECRET, PUBLIC, space=space_of(local_model), vectors=vectors)


def ask(library: Library, who: str, mode: Mode = "blend", **changes: Any) -> RetrievalResult:
    return retrieve(library.principal(who), replace(RetrievalRequest(QUESTION, mode=mode, top_k=5), **changes))


def shown(result: RetrievalResult) -> str:
    return " ".join(str(value) for value in result.as_json().values())


@pytest.mark.parametrize("mode", MODES)
def test_owner_and_viewer_find_the_answer_strangers_find_nothing(
    library: Library, document: Document, mode: Mode
) -> None:
    for who in ("alice", "bob"):
        result = ask(library, who, mode)
        assert result.hits[0].text == SECRET
        assert result.hits[0].document == document.uid
        assert result.searched == 2
        assert not result.warnings
    for who in ("mallory", "eve"):
        result = ask(library, who, mode)
        assert result.hits == () and result.searched == 0 and result.base_ids == ()


@pytest.mark.parametrize("who", ["mallory", "eve"])
def test_naming_a_hidden_base_looks_like_naming_none(library: Library, document: Document, who: str) -> None:
    hidden = ask(library, who, base_uids=(document.base.uid,))
    absent = ask(library, who, base_uids=("doesnotexist2345",))
    assert hidden.hits == absent.hits == ()
    assert (hidden.searched, hidden.trace["lexemes"]) == (absent.searched, absent.trace["lexemes"])
    assert ask(library, who, filters=Filters(document_uids=(document.uid,))).hits == ()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "change", ["disabled", "deleted", "base deleted", "superseded", "failed", "chunk off", "revoked", "inactive"]
)
def test_what_is_gone_is_gone_from_every_mode_at_once(
    library: Library, document: Document, mode: Mode, change: str
) -> None:
    assert ask(library, "bob", mode).hits[0].text == SECRET
    rows = Document.objects.filter(pk=document.pk)
    if change == "disabled":
        rows.update(enabled=False)
    elif change == "deleted":
        rows.update(deleted_at=timezone.now())
    elif change == "base deleted":
        KnowledgeBase.objects.filter(pk=document.base_id).update(deleted_at=timezone.now())
    elif change == "superseded":
        library.revise(document, PUBLIC)
    elif change == "failed":
        Revision.objects.filter(document=document).update(status="failed")
    elif change == "chunk off":
        Chunk.objects.filter(text=SECRET, level="passage").update(enabled=False)
    elif change == "revoked":
        Grant.objects.filter(user=library.people["bob"]).delete()
        bump_acl(library.home.pk)
    else:
        User.objects.filter(username="bob").update(is_active=False)
    assert SECRET not in shown(ask(library, "bob", mode, neighbours=3))


@pytest.mark.parametrize("level", ["passage", "leaf"])
def test_a_switched_off_chunk_is_no_neighbour_and_no_hit(library: Library, document: Document, level: str) -> None:
    Chunk.objects.filter(text=SECRET, level=level).update(enabled=False)
    for mode in MODES:
        result = ask(library, "alice", mode)
        assert SECRET not in [hit.text for hit in result.hits]
    if level == "passage":
        hit = ask(library, "alice", query="红烧肉", neighbours=3).hits[0]
        assert hit.text == PUBLIC and hit.before == ()


def test_neighbours_come_with_the_passage(library: Library, document: Document) -> None:
    hit = ask(library, "bob", query="红烧肉", neighbours=1).hits[0]
    assert hit.before == (SECRET,) and hit.after == ()


def test_a_key_limited_to_other_bases_finds_nothing(library: Library, document: Document) -> None:
    other = library.base("Other")
    request = RetrievalRequest(QUESTION)
    narrowed = library.principal("alice").narrowed(frozenset({other.pk}))
    assert retrieve(narrowed, request).hits == ()
    without_scope = replace(library.principal("alice"), scopes=frozenset({"runs"}))
    assert retrieve(without_scope, request).hits == ()


def test_a_department_grant_reaches_its_descendants(library: Library, document: Document) -> None:
    head = Department.objects.create(workspace=library.home, name="Head")
    head.lineage = [head.pk]
    head.save()
    team = Department.objects.create(workspace=library.home, name="Team", parent=head)
    team.lineage = [head.pk, team.pk]
    team.save()
    Membership.objects.filter(user=library.people["mallory"]).update(department=team)
    assert ask(library, "mallory").hits == ()
    Grant.objects.create(base=document.base, department=head, role=Role.VIEWER)
    assert ask(library, "mallory").hits[0].text == SECRET


def test_statistics_of_hidden_bases_do_not_leak_through_the_trace(library: Library, document: Document) -> None:
    library.document(library.base("Away", owner="eve", viewers=()), "theirs", "总经理 机密 " * 5)
    trace = ask(library, "bob").trace
    counts = {row["lexeme"]: row["chunks"] for row in trace["lexemes"]}
    assert counts["总经理"] == 1


def test_an_embedding_model_that_is_away_leaves_words_and_a_warning(
    library: Library, document: Document, settings: object
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "EMBEDDING_MODE": "server", "EMBEDDING_URL": "http://127.0.0.1:9"}  # type: ignore[attr-defined]
    result = ask(library, "bob")
    assert result.mode == "keywords"
    assert result.hits[0].text == SECRET
    assert [warning["code"] for warning in result.warnings] == ["embedding_away"]


def test_filters_narrow_before_the_best_are_taken(
    library: Library, local_model: ModelEndpoint, base: KnowledgeBase
) -> None:
    space = space_of(local_model)
    texts = [f"报销流程第{number}步" for number in range(30)]
    vectors = embedder_for(local_model).embed_passages([*texts, "报销流程概述"])
    for number, text in enumerate(texts):
        library.document(base, f"d{number}", text, space=space, vectors=vectors[number : number + 1])
    tagged = library.document(
        base, "tagged", "报销流程概述", space=space, vectors=vectors[30:], tags=["财务"], folder="制度/费用"
    )
    for filters in (Filters(tags=("财务",)), Filters(folder="制度"), Filters(document_uids=(tagged.uid,))):
        for mode in MODES:
            result = ask(library, "alice", mode, query="报销流程第3步", filters=filters)
            assert [hit.document for hit in result.hits] == [tagged.uid]
            assert result.searched == 1
    assert ask(library, "alice", filters=Filters(folder="制")).hits == ()
    today = timezone.now().date()
    assert ask(library, "alice", query="报销", filters=Filters(updated_from=today, updated_to=today)).hits
    assert not ask(library, "alice", query="报销", filters=Filters(mimes=("application/pdf",))).hits


def test_half_of_a_thousand_disabled_chunks_do_not_empty_the_list(library: Library, local_model: ModelEndpoint) -> None:
    base = library.base("Big", embedding=local_model)
    dice = np.random.default_rng(1)
    points = dice.normal(size=(200, 384)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    library.document(base, "d", *[f"text {n}" for n in range(200)], space=space_of(local_model), vectors=points)
    Chunk.objects.filter(level="passage", ordinal__lt=190).update(enabled=False)
    assert len(ask(library, "alice", "embedding", query="anything", top_k=10).hits) == 10
