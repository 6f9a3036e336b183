"""Which work is running, which needs a person and which is done: the one definition that every count uses.

A task is a revision. It needs attention when it is the newest of its document and failed, found no text
or waits for a review, or when it runs without a sign of life (`lifecycle.stuck_after`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    F,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce
from django.utils import timezone

from knowledge import lifecycle
from knowledge.access import visible_revisions
from knowledge.models import Document, KnowledgeBase, Revision, Role
from portal.kernel.principal import Principal

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

Status = Revision.Status
RUNNING, ATTENTION, DONE = "running", "attention", "done"
FAILURES = (Status.FAILED, Status.NO_TEXT)


class Facts(TypedDict):
    """What `tasks` adds to each revision."""

    is_newest: bool
    bucket: str


if TYPE_CHECKING:
    Task = WithAnnotations[Revision, Facts]


def stuck(prefix: str = "") -> Q:
    """Running without a sign of life for too long; `prefix` is the path to the revision (`document__…__`)."""
    limit = timezone.now() - lifecycle.stuck_after()
    return Q(**{f"{prefix}status__in": lifecycle.RUNNING, f"{prefix}heartbeat_at__lt": limit})


def is_stuck(revision: Revision) -> bool:
    """The same for a row at hand."""
    beat = revision.heartbeat_at
    return revision.status in lifecycle.RUNNING and beat is not None and beat < timezone.now() - lifecycle.stuck_after()


def tasks(principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[Task]:
    """All work on documents on which the asker's role is `at_least`, with its `bucket` and `is_newest`."""
    newer = Revision.objects.filter(document_id=OuterRef("document_id"), number__gt=OuterRef("number"))
    return (
        visible_revisions(principal, at_least)
        .annotate(is_newest=~Exists(newer))
        .annotate(
            bucket=Case(
                When(stuck(), then=Value(ATTENTION)),
                When(status__in=lifecycle.OPEN, then=Value(RUNNING)),
                When(Q(is_newest=True, status__in=[*FAILURES, Status.REVIEW]), then=Value(ATTENTION)),
                default=Value(DONE),
                output_field=CharField(),
            )
        )
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tasks there are of each bucket; `all` is their sum."""

    running: int = 0
    attention: int = 0
    done: int = 0

    @property
    def all(self) -> int:
        return self.running + self.attention + self.done


def counts(rows: QuerySet[Task]) -> Counts:
    """The buckets of `tasks(…)`, filtered in whatever way."""
    found = dict(rows.order_by().values_list("bucket").annotate(number=Count("pk")))
    return Counts(running=found.get(RUNNING, 0), attention=found.get(ATTENTION, 0), done=found.get(DONE, 0))


@dataclass(frozen=True, slots=True)
class Needs:
    """What waits for the asker: revisions to review, failures to mend, work that is stuck."""

    review: int = 0
    failed: int = 0
    stuck: int = 0

    @property
    def all(self) -> int:
        return self.review + self.failed + self.stuck


def needs(principal: Principal) -> Needs:
    """Attention in the bases that the asker may edit: only they can do something about it."""
    found = (
        tasks(principal, Role.EDITOR)
        .filter(bucket=ATTENTION)
        .aggregate(
            review=Count("pk", filter=Q(status=Status.REVIEW)),
            failed=Count("pk", filter=Q(status__in=FAILURES)),
            stuck=Count("pk", filter=Q(status__in=lifecycle.RUNNING)),
        )
    )
    return Needs(**found)


def with_document_counts(bases: QuerySet[KnowledgeBase]) -> QuerySet[KnowledgeBase]:
    """Each base with `documents_total`, and how many are `…_searchable`, `…_attention`, `…_review`, `…_running`."""
    live = Q(documents__deleted_at__isnull=True)
    return bases.annotate(
        documents_total=_per_base(Document.objects.all()),
        documents_searchable=_per_base(Document.objects.filter(searchable())),
        documents_attention=_per_base(Document.objects.filter(_newest_is(ATTENTION))),
        documents_review=_per_base(Document.objects.filter(_newest_is(Status.REVIEW))),
        documents_running=_per_base(Document.objects.filter(_newest_is(RUNNING))),
        documents_changed=_latest_change(live),
    )


def searchable() -> Q:
    """Of live documents, those that a search may find."""
    return Q(enabled=True, active_revision__isnull=False)


def _newest_is(bucket: str) -> Any:
    """Documents whose newest revision is in this bucket, or waits for a review."""
    newer = Revision.objects.filter(document_id=OuterRef("document_id"), number__gt=OuterRef("number"))
    rows = Revision.objects.filter(document_id=OuterRef("pk")).filter(~Exists(newer))
    if bucket == RUNNING:
        rows = rows.filter(status__in=lifecycle.OPEN).exclude(stuck())
    elif bucket == Status.REVIEW:
        rows = rows.filter(status=Status.REVIEW)
    else:
        rows = rows.filter(Q(status__in=[*FAILURES, Status.REVIEW]) | stuck())
    return Exists(rows)


def _per_base(documents: QuerySet[Document]) -> Any:
    rows = (
        documents.filter(base=OuterRef("pk"), deleted_at__isnull=True)
        .order_by()
        .values("base")
        .annotate(number=Count("pk"))
        .values("number")
    )
    return Coalesce(Subquery(rows, output_field=IntegerField()), 0)


def _latest_change(live: Q) -> Any:
    return Max("documents__updated_at", filter=live)


def in_state(rows: QuerySet[Task], state: str) -> QuerySet[Task]:
    """Of `tasks(…)`, those in a state as people speak of it: review, failed (or without text), stuck, …"""
    if state == "stuck":
        return rows.filter(bucket=ATTENTION, status__in=lifecycle.RUNNING)
    return rows.filter(status__in=FAILURES if state == "failed" else (state,))


def newest_first(rows: QuerySet[Task]) -> QuerySet[Task]:
    """What changed last stands first."""
    return rows.order_by(F("queued_at").desc(), "-pk")
