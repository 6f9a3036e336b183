"""The evaluation set of a base: what a case is, how it gets in, what of it is still there.

A case is one question with at least one expected answer. An expected chunk is kept as its document and its text,
not as its id: splitting anew makes other chunks of the same text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from knowledge.access import visible_bases
from knowledge.models import CaseTarget, Chunk, Document, EvaluationCase, KnowledgeBase, Role
from knowledge.text import clean, normalise
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.principal import Principal

LONGEST_QUESTION, LONGEST_SNIPPET = 1_000, 4_000
MOST_TARGETS = 50
MOST_CASES = 5_000
Origin = EvaluationCase.Origin


@dataclass(frozen=True, slots=True)
class Target:
    """An expected answer: a live document of the base, a piece of its text, or a piece of text wherever it stands."""

    document: Document | None = None
    snippet: str = ""
    grade: int = 1


def digest_of(question: str) -> str:
    """What two questions share that ask the same in the same words."""
    return hashlib.sha256(" ".join(normalise(question).text.split()).encode()).hexdigest()


def add(
    principal: Principal,
    base: KnowledgeBase,
    question: str,
    targets: Sequence[Target],
    *,
    origin: EvaluationCase.Origin = Origin.HAND,
) -> EvaluationCase:
    """Put a case into a base's set; the base comes from `access_base(…, EDITOR)`.

    Raises `Invalid` (question_missing, question_too_long, target_missing, target_invalid, too_many_cases) and
    `Conflict` (case_taken) when the set asks the same already.
    """
    asked = " ".join(clean(question).split())
    _check(base, asked, targets)
    try:
        with transaction.atomic():
            case = EvaluationCase.objects.create(
                base=base,
                question=asked,
                digest=digest_of(asked),
                origin=origin,
                created_by_id=principal.user_id,
            )
            _put_targets(case, targets)
            audit.record(principal, "case.add", case, base_ids=[base.pk], origin=origin, expected=len(targets))
    except IntegrityError as error:
        raise Conflict("The evaluation set asks this already.", code="case_taken") from error
    return case


def _check(base: KnowledgeBase, question: str, targets: Sequence[Target]) -> None:
    if not question:
        raise Invalid("Enter a question.", code="question_missing")
    if len(question) > LONGEST_QUESTION:
        raise Invalid("A question has at most %(most)s characters.", code="question_too_long", most=LONGEST_QUESTION)
    if not targets or len(targets) > MOST_TARGETS:
        raise Invalid(
            "Say what is expected: 1 to %(most)s documents or pieces of text.", code="target_missing", most=MOST_TARGETS
        )
    for target in targets:
        foreign = target.document is not None and target.document.base_id != base.pk
        empty = target.document is None and not target.snippet.strip()
        if foreign or empty or not 1 <= target.grade <= 10 or len(target.snippet) > LONGEST_SNIPPET:
            raise Invalid(
                "An expected answer is a document of this base or a text of at most %(most)s characters, "
                "with a grade from 1 to 10.",
                code="target_invalid",
                most=LONGEST_SNIPPET,
            )
    if EvaluationCase.objects.filter(base=base).count() >= MOST_CASES:
        raise Invalid("An evaluation set holds at most %(most)s cases.", code="too_many_cases", most=MOST_CASES)


def _put_targets(case: EvaluationCase, targets: Iterable[Target]) -> None:
    CaseTarget.objects.bulk_create(
        [
            CaseTarget(case=case, document=row.document, snippet=clean(row.snippet).strip(), grade=row.grade)
            for row in targets
        ]
    )


@transaction.atomic
def mark(
    principal: Principal,
    base: KnowledgeBase,
    question: str,
    targets: Sequence[Target],
    *,
    origin: EvaluationCase.Origin,
) -> EvaluationCase:
    """Add a case, or add to what the case with this question expects; raises `Invalid` as `add` does."""
    case = EvaluationCase.objects.filter(base=base, digest=digest_of(" ".join(clean(question).split()))).first()
    if case is None:
        return add(principal, base, question, targets, origin=origin)
    there = {(row.document_id, row.snippet) for row in case.targets.all()}
    fresh = [
        row for row in targets if (row.document.pk if row.document else None, clean(row.snippet).strip()) not in there
    ]
    if fresh:
        _check(base, case.question, fresh)
        if len(there) + len(fresh) > MOST_TARGETS:
            raise Invalid(
                "Say what is expected: 1 to %(most)s documents or pieces of text.",
                code="target_missing",
                most=MOST_TARGETS,
            )
        _put_targets(case, fresh)
        audit.record(principal, "case.expect", case, base_ids=[base.pk], expected=len(there) + len(fresh))
    return case


@transaction.atomic
def expect(principal: Principal, case: EvaluationCase, targets: Sequence[Target]) -> None:
    """Replace what a case expects. Raises `Invalid` as `add` does."""
    _check(case.base, case.question, targets)
    case.targets.all().delete()
    _put_targets(case, targets)
    audit.record(principal, "case.expect", case, base_ids=[case.base_id], expected=len(targets))


def target_of_chunk(base: KnowledgeBase, chunk: Chunk, grade: int = 1) -> Target:
    """The expected answer that a chunk is; a leaf stands for itself, not for its passage."""
    document = chunk.revision.document
    if document.base_id != base.pk:
        raise NotFound("Not found, or you don't have access.")
    return Target(document, chunk.text[:LONGEST_SNIPPET], grade)


@transaction.atomic
def enable(principal: Principal, case: EvaluationCase, enabled: bool) -> None:
    """Ask a case in runs, or leave it out."""
    if EvaluationCase.objects.filter(pk=case.pk).exclude(enabled=enabled).update(enabled=enabled):
        audit.record(principal, "case.enable", case, base_ids=[case.base_id], enabled=enabled)


@transaction.atomic
def delete(principal: Principal, case: EvaluationCase) -> None:
    """Take a case out of the set, its results in earlier runs with it; their means stay as they were."""
    audit.record(principal, "case.delete", case, base_ids=[case.base_id])
    case.delete()


@transaction.atomic
def clear(principal: Principal, base: KnowledgeBase) -> int:
    """Empty a base's set; returns how many cases there were."""
    rows = EvaluationCase.objects.filter(base=base)
    number = rows.count()
    if number:
        audit.record(principal, "case.clear", base, base_ids=[base.pk], cases=number)
        rows.delete()
    return number


def visible_cases(principal: Principal) -> QuerySet[EvaluationCase]:
    """The cases of the bases that the asker may edit."""
    return EvaluationCase.objects.filter(base__in=visible_bases(principal, Role.EDITOR))


def access_case(principal: Principal, uid: str) -> EvaluationCase:
    """The case with this uid, its base at hand. `NotFound` when absent or hidden."""
    case = visible_cases(principal).select_related("base").filter(uid=uid).first()
    if case is None:
        raise NotFound("Not found, or you don't have access.")
    return case


def live_targets(case: EvaluationCase) -> list[CaseTarget]:
    """What a case expects and can still be found: documents in the recycle bin or in another base can not."""
    return [row for row in case.targets.all() if is_live(row, case.base_id)]


def is_live(target: CaseTarget, base_id: int) -> bool:
    document = target.document
    return document is None or (document.base_id == base_id and document.deleted_at is None)
