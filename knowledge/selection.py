"""Which documents of a base somebody means: the filters of the list, as they stand in an address, and their rows.

Page, API, admin and batches share it, so that every count agrees. Nonsense in an address counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlencode

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy

from knowledge import lifecycle, review_dates, tags, worklist
from knowledge.access import deleted_documents, visible_documents
from knowledge.ingestion.parsers import FILE_TYPES
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
# One choice for each kind of file, named by its main extension.
TYPES: tuple[tuple[str, str], ...] = tuple((row.extensions[0], row.label) for row in FILE_TYPES)
_MIMES = {row.extensions[0]: row.mime for row in FILE_TYPES}
# Age by the last change, in days; the last is "older than".
CHANGED: tuple[tuple[str, Any], ...] = (
    ("1d", gettext_lazy("Last 24 hours")),
    ("7d", gettext_lazy("Last 7 days")),
    ("30d", gettext_lazy("Last 30 days")),
    ("365d", gettext_lazy("Last 12 months")),
    ("older", gettext_lazy("Older than 12 months")),
)
REVIEWS: tuple[tuple[str, Any], ...] = (
    ("overdue", gettext_lazy("Review overdue")),
    ("due", gettext_lazy("Review due soon")),
    ("set", gettext_lazy("With a review date")),
    ("none", gettext_lazy("Without a review date")),
)
ME, NOBODY = "me", "nobody"


class Newest(TypedDict):
    """What `with_newest` adds to each document."""

    newest_id: int | None
    newest_status: str
    newest_beat: datetime | None
    newest_mime: str


if TYPE_CHECKING:
    Listed = WithAnnotations[Document, Newest]

# Sort key -> expressions; a leading minus in the address turns them around.
SORTS = {
    "name": ("name", "pk"),
    "updated": ("updated_at", "pk"),
    "state": ("newest_status", "name", "pk"),
    "review": ("review_date", "name", "pk"),
}
SORT_LABELS: tuple[tuple[str, Any], ...] = (
    ("-updated", gettext_lazy("Last changed")),
    ("updated", gettext_lazy("Longest unchanged")),
    ("name", gettext_lazy("Name, A–Z")),
    ("-name", gettext_lazy("Name, Z–A")),
    ("state", gettext_lazy("State")),
    ("review", gettext_lazy("Review date")),
)
DEFAULT_SORT = "-updated"
# Name in the address -> field, in the order in which the address shows them.
_ADDRESS = {
    "q": "query",
    "state": "state",
    "tag": "tag",
    "type": "type",
    "changed": "changed",
    "review": "review",
    "owner": "owner",
    "folder": "folder",
    "sort": "sort",
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What an address asks for. `changed` is one of `CHANGED`; `since` and `until` are whole days (API only)."""

    query: str = ""
    state: str = ""
    tag: str = ""
    type: str = ""
    changed: str = ""
    review: str = ""
    owner: str = ""
    folder: str = ""
    sort: str = DEFAULT_SORT
    since: date | None = None
    until: date | None = None

    @classmethod
    def of(cls, data: Mapping[str, str]) -> Filters:
        def text(name: str, limit: int) -> str:
            return " ".join(str(data.get(name, "")).replace("\x00", "").split())[:limit]

        def one_of(name: str, choices: Any) -> str:
            value = str(data.get(name, ""))
            return value if value in dict(choices) else ""

        sort, owner = str(data.get("sort", "")), text("owner", 16)
        return cls(
            query=text("q", 200),
            state=one_of("state", STATES),
            tag=text("tag", 60),
            type=one_of("type", TYPES),
            changed=one_of("changed", CHANGED),
            review=one_of("review", REVIEWS),
            owner=owner if owner.isalnum() else "",
            folder=str(data.get("folder", "")).replace("\x00", "").strip("/")[:800],
            sort=sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
        )

    @classmethod
    def of_address(cls, encoded: str) -> Filters:
        """The filters of a query string."""
        return cls.of(QueryDict(encoded[:4_000]).dict())

    @property
    def narrows(self) -> bool:
        """Whether anything but the folder is asked for."""
        return self.details > 0 or bool(self.query or self.state or self.since or self.until)

    @property
    def details(self) -> int:
        """How many of the less used filters are set."""
        return sum(map(bool, (self.tag, self.type, self.changed, self.review, self.owner)))

    def encoded(self, **changes: str) -> str:
        """As a query string, defaults left out, from the first page on."""
        wanted = replace(self, **changes)  # type: ignore[arg-type]
        values = {name: getattr(wanted, field) for name, field in _ADDRESS.items()}
        if wanted.sort == DEFAULT_SORT:
            del values["sort"]
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
    """Each document with `newest_id`, `newest_status`, `newest_beat` and `newest_mime` of its newest revision."""
    newest = Revision.objects.filter(document=OuterRef("pk")).order_by("-number")
    return rows.annotate(
        newest_id=Subquery(newest.values("pk")[:1]),
        newest_status=Subquery(newest.values("status")[:1]),
        newest_beat=Subquery(newest.values("heartbeat_at")[:1]),
        newest_mime=Subquery(newest.values("mime")[:1]),
    )


def stuck() -> Q:
    """On documents `with_newest`: running without a sign of life (the rule of `worklist`)."""
    limit = timezone.now() - lifecycle.stuck_after()
    return Q(newest_status__in=lifecycle.RUNNING, newest_beat__lt=limit)


def needs_attention() -> Q:
    """On documents `with_newest`: failed, empty, waiting for a review, or stuck (the rule of `worklist`)."""
    return Q(newest_status__in=[*worklist.FAILURES, Status.REVIEW]) | stuck()


def matching(principal: Principal, base: KnowledgeBase, filters: Filters) -> QuerySet[Listed]:
    """The documents of the whole list, over all pages, in order."""
    return narrowed(with_newest(visible_documents(principal).filter(base=base)), principal, base, filters)


def binned(principal: Principal, base: KnowledgeBase) -> QuerySet[Document]:
    """The recycle bin of a base, what came last first."""
    return deleted_documents(principal).filter(base=base).order_by("-deleted_at", "pk")


def narrowed(rows: QuerySet[Listed], principal: Principal, base: KnowledgeBase, filters: Filters) -> QuerySet[Listed]:
    """The rows that the filters leave, in their order."""
    if filters.query:
        rows = rows.filter(Q(name__icontains=filters.query) | Q(folder__icontains=filters.query))
    if filters.tag:
        rows = rows.filter(tags__contains=tags.spelt(base.pk, [filters.tag]))
    if filters.type:
        rows = rows.filter(newest_mime=_MIMES[filters.type])
    if filters.folder:
        rows = rows.filter(Q(folder=filters.folder) | Q(folder__startswith=f"{filters.folder}/"))
    rows = _of_owner(_in_state(_dated(rows, filters), filters.state), principal, filters.owner)
    keys = [F(key) for key in SORTS[filters.sort.removeprefix("-")]]
    down = filters.sort.startswith("-")
    return rows.order_by(*[key.desc(nulls_last=True) if down else key.asc(nulls_last=True) for key in keys])


def _dated(rows: QuerySet[Listed], filters: Filters) -> QuerySet[Listed]:
    now = timezone.now()
    if filters.changed == "older":
        rows = rows.filter(updated_at__lt=now - timedelta(days=365))
    elif filters.changed:
        rows = rows.filter(updated_at__gte=now - timedelta(days=int(filters.changed.removesuffix("d"))))
    if filters.since:
        rows = rows.filter(updated_at__gte=datetime.combine(filters.since, time.min, UTC))
    if filters.until:
        rows = rows.filter(updated_at__lte=datetime.combine(filters.until, time.max, UTC))
    if filters.review:
        rows = rows.filter(review_dates.condition(filters.review))
    return rows


def _of_owner(rows: QuerySet[Listed], principal: Principal, owner: str) -> QuerySet[Listed]:
    if owner == ME:
        return rows.filter(owner_id=principal.user_id)
    if owner == NOBODY:
        return rows.filter(owner__isnull=True)
    return rows.filter(owner__uid=owner) if owner else rows


def _in_state(rows: QuerySet[Listed], state: str) -> QuerySet[Listed]:
    if not state:
        return rows
    if state == OFF:
        return rows.filter(enabled=False)
    if state == ATTENTION:
        return rows.filter(needs_attention())
    if state == STUCK:
        return rows.filter(stuck())
    if state == RUNNING:
        return rows.filter(newest_status__in=lifecycle.OPEN).exclude(stuck())
    return rows.filter(newest_status=state)
