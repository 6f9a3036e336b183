"""Which documents a list shows: filter, folder, order, as they stand in the address. Page, row and bulk share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy

from knowledge import lifecycle, worklist
from knowledge.access import visible_documents
from knowledge.models import Document, KnowledgeBase, Revision
from portal.kernel.principal import Principal

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

Status = Revision.Status
ATTENTION, RUNNING, STUCK, OFF = "attention", "running", "stuck", "off"
STATES: tuple[tuple[str, Any], ...] = (
    (ATTENTION, gettext_lazy("Need attention")),
    (RUNNING, gettext_lazy("In progress")),
    (STUCK, gettext_lazy("Stuck")),
    *((str(value), label) for value, label in Status.choices),
    (OFF, gettext_lazy("Disabled")),
)


class Newest(TypedDict):
    """What `with_newest` adds to each document."""

    newest_id: int | None
    newest_status: str
    newest_beat: datetime | None


if TYPE_CHECKING:
    Listed = WithAnnotations[Document, Newest]

# Sort key -> expressions; a leading minus in the address turns them around.
SORTS = {"name": ("name", "pk"), "updated": ("updated_at", "pk"), "state": ("newest_status", "name", "pk")}
SORT_LABELS: tuple[tuple[str, Any], ...] = (
    ("-updated", gettext_lazy("Last changed")),
    ("updated", gettext_lazy("Longest unchanged")),
    ("name", gettext_lazy("Name, A–Z")),
    ("-name", gettext_lazy("Name, Z–A")),
    ("state", gettext_lazy("State")),
)
DEFAULT_SORT = "-updated"


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address asks for; nonsense counts as absent."""

    query: str = ""
    state: str = ""
    tag: str = ""
    folder: str = ""
    sort: str = DEFAULT_SORT

    @classmethod
    def of(cls, data: QueryDict) -> Filters:
        def text(name: str, limit: int) -> str:
            return " ".join(data.get(name, "").replace("\x00", "").split())[:limit]

        state, sort = data.get("state", ""), data.get("sort", "")
        return cls(
            query=text("q", 200),
            state=state if state in dict(STATES) else "",
            tag=text("tag", 60),
            folder=data.get("folder", "").replace("\x00", "").strip("/")[:800],
            sort=sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
        )

    @property
    def narrows(self) -> bool:
        """Whether anything but the folder is asked for."""
        return bool(self.query or self.state or self.tag)

    def encoded(self, **changes: str) -> str:
        """As a query string, defaults left out, from the first page on."""
        wanted = replace(self, **changes)
        values = {
            "q": wanted.query,
            "state": wanted.state,
            "tag": wanted.tag,
            "folder": wanted.folder,
            "sort": "" if wanted.sort == DEFAULT_SORT else wanted.sort,
        }
        return urlencode({name: value for name, value in values.items() if value})

    def _toggled(self, column: str) -> str:
        return f"-{column}" if self.sort == column else column

    @property
    def sort_name(self) -> str:
        """The order after a press on the header of the column "name"; the others likewise."""
        return self._toggled("name")

    @property
    def sort_state(self) -> str:
        return self._toggled("state")

    @property
    def sort_updated(self) -> str:
        return "updated" if self.sort == "-updated" else "-updated"


def with_newest(rows: QuerySet[Document]) -> QuerySet[Listed]:
    """Each document with `newest_id`, `newest_status` and `newest_beat` of its newest revision."""
    newest = Revision.objects.filter(document=OuterRef("pk")).order_by("-number")
    return rows.annotate(
        newest_id=Subquery(newest.values("pk")[:1]),
        newest_status=Subquery(newest.values("status")[:1]),
        newest_beat=Subquery(newest.values("heartbeat_at")[:1]),
    )


def _stuck() -> Q:
    limit = timezone.now() - lifecycle.stuck_after()
    return Q(newest_status__in=lifecycle.RUNNING, newest_beat__lt=limit)


def needs_attention() -> Q:
    """On documents `with_newest`: failed, empty, waiting for a review, or stuck (the rule of `worklist`)."""
    return Q(newest_status__in=[*worklist.FAILURES, Status.REVIEW]) | _stuck()


def matching(principal: Principal, base: KnowledgeBase, filters: Filters) -> QuerySet[Listed]:
    """The documents of the whole list, over all pages, in order."""
    rows = with_newest(visible_documents(principal).filter(base=base))
    if filters.query:
        rows = rows.filter(Q(name__icontains=filters.query) | Q(folder__icontains=filters.query))
    if filters.tag:
        rows = rows.filter(tags__contains=[filters.tag])
    if filters.folder:
        rows = rows.filter(Q(folder=filters.folder) | Q(folder__startswith=f"{filters.folder}/"))
    rows = _in_state(rows, filters.state)
    keys = [F(key) for key in SORTS[filters.sort.removeprefix("-")]]
    down = filters.sort.startswith("-")
    return rows.order_by(*[key.desc() if down else key.asc() for key in keys])


def _in_state(rows: QuerySet[Listed], state: str) -> QuerySet[Listed]:
    if not state:
        return rows
    if state == OFF:
        return rows.filter(enabled=False)
    if state == ATTENTION:
        return rows.filter(needs_attention())
    if state == STUCK:
        return rows.filter(_stuck())
    if state == RUNNING:
        return rows.filter(newest_status__in=lifecycle.OPEN).exclude(_stuck())
    return rows.filter(newest_status=state)


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
    """Of a base's live documents: all, those that a search finds, those that need a person, those at work."""

    total: int
    searchable: int
    attention: int
    running: int


def counts(principal: Principal, base: KnowledgeBase) -> Counts:
    """The figures of the summary line, the same as on the list of bases."""
    found = with_newest(visible_documents(principal).filter(base=base)).aggregate(
        total=Count("pk"),
        searchable=Count("pk", filter=worklist.searchable()),
        attention=Count("pk", filter=needs_attention()),
        stuck=Count("pk", filter=_stuck()),
        open=Count("pk", filter=Q(newest_status__in=lifecycle.OPEN)),
    )
    return Counts(found["total"], found["searchable"], found["attention"], running=found["open"] - found["stuck"])


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the list: a document, its newest revision, and what this person may do with it."""

    document: Document
    newest: Revision | None
    can_edit: bool
    seq: int

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
