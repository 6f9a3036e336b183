"""What the list of a base's documents shows besides the filters (`knowledge/selection.py`): folders, counts, rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, Q

from knowledge import lifecycle, review_dates, worklist
from knowledge.access import visible_documents
from knowledge.models import Document, KnowledgeBase, Revision
from knowledge.selection import needs_attention, stuck, with_newest
from portal.kernel.principal import Principal

if TYPE_CHECKING:
    from knowledge.selection import Listed

Status = Revision.Status


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder directly below the one that is shown, and how many documents lie in and below it."""

    name: str
    path: str
    documents: int


def folders(principal: Principal, base: KnowledgeBase, inside: str) -> list[Folder]:
    """The folders directly below `inside`, by name."""
    prefix = f"{inside}/" if inside else ""
    paths = (
        visible_documents(principal)
        .filter(base=base, folder__startswith=prefix)
        .exclude(folder="")
        .order_by()
        .values_list("folder")
        .annotate(number=Count("pk"))
    )
    counts: Counter[str] = Counter()
    for path, number in paths:
        if path != inside:
            counts[path[len(prefix) :].split("/", 1)[0]] += number
    return [Folder(name, f"{prefix}{name}", number) for name, number in sorted(counts.items()) if name]


def trail(folder: str) -> list[tuple[str, str]]:
    """(name, path) of a folder and those above it, outermost first."""
    names = folder.split("/") if folder else []
    return [(name, "/".join(names[: place + 1])) for place, name in enumerate(names)]


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a base's live documents: all, those that a search finds, those that need a person, those at work.

    `review` of those that need a person wait until somebody approves their chunks; `due` and `overdue` are dates
    by which a document is to be looked at again.
    """

    total: int
    searchable: int
    attention: int
    review: int
    running: int
    due: int
    overdue: int


def counts(principal: Principal, base: KnowledgeBase) -> Counts:
    """The figures of the summary line, the same as on the list of bases."""
    found = with_newest(visible_documents(principal).filter(base=base)).aggregate(
        total=Count("pk"),
        searchable=Count("pk", filter=worklist.searchable()),
        attention=Count("pk", filter=needs_attention()),
        review=Count("pk", filter=Q(newest_status=Revision.Status.REVIEW)),
        stuck=Count("pk", filter=stuck()),
        open=Count("pk", filter=Q(newest_status__in=lifecycle.OPEN)),
        due=Count("pk", filter=review_dates.condition(review_dates.DUE)),
        overdue=Count("pk", filter=review_dates.condition(review_dates.OVERDUE)),
    )
    return Counts(
        total=found["total"],
        searchable=found["searchable"],
        attention=found["attention"],
        review=found["review"],
        running=found["open"] - found["stuck"],
        due=found["due"],
        overdue=found["overdue"],
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: a document, its newest revision, and what this person may do with it."""

    document: Document
    newest: Revision | None
    can_edit: bool
    seq: int

    @property
    def review(self) -> str:
        """ "", "due" or "overdue"."""
        return review_dates.state_of(self.document.review_date)

    @property
    def earlier_serves(self) -> bool:
        """An older revision answers searches while the newest one is at work or has failed."""
        active = self.document.active_revision_id
        return bool(active and self.newest and active != self.newest.pk and self.newest.status != Status.INDEXED)

    @property
    def active_number(self) -> int | None:
        active = self.document.active_revision
        return active.number if active else None

    @property
    def is_current(self) -> bool:
        return self.newest is not None and self.newest.pk == self.document.active_revision_id

    @property
    def rolled_back(self) -> bool:
        """Somebody has made an older revision the current one, though the newest is ready too."""
        newest = self.newest
        return bool(newest and newest.status == Status.INDEXED and not self.is_current and self.active_number)

    @property
    def may_retry(self) -> bool:
        return self.can_edit and self.newest is not None and self.newest.status in lifecycle.RETRYABLE

    @property
    def wants_another_file(self) -> bool:
        return self.newest is not None and lifecycle.wants_another_file(self.newest)

    @property
    def may_cancel(self) -> bool:
        newest = self.newest
        stoppable = newest is not None and newest.status in (*lifecycle.OPEN, Status.REVIEW)
        return self.can_edit and stoppable and newest is not None and not newest.cancel_requested

    @property
    def may_reindex(self) -> bool:
        newest = self.newest
        return self.can_edit and newest is not None and newest.status not in (*lifecycle.OPEN, Status.REVIEW)


def as_rows(documents: Iterable[Listed], *, can_edit: bool, seq: int | None) -> Sequence[Row]:
    """Lines for documents `with_newest`; one query for all their revisions."""
    listed = list(documents)
    wanted = [document.newest_id for document in listed]
    found = Revision.objects.select_related("created_by").in_bulk([pk for pk in wanted if pk])
    return [
        Row(document, found.get(pk) if pk else None, can_edit, seq or 0)
        for document, pk in zip(listed, wanted, strict=True)
    ]
