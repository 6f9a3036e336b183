"""Task history: what was processed, by whom, when, how long, and why it failed; retry and cancel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import lifecycle, worklist
from knowledge.access import access_revision, visible_bases
from knowledge.models import Revision, Role
from portal.kernel.errors import Conflict
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import back, page_of, say, signed_in
from portal.kernel.principal import Principal
from portal.pages.following import topics_of

TABS = (
    ("all", gettext_lazy("All")),
    ("running", gettext_lazy("Running")),
    ("attention", gettext_lazy("Attention")),
    ("done", gettext_lazy("Done")),
)
STATES = (
    ("review", gettext_lazy("Needs review")),
    ("failed", gettext_lazy("Failed or no text")),
    ("stuck", gettext_lazy("Stuck")),
    ("indexed", gettext_lazy("Searchable")),
    ("cancelled", gettext_lazy("Cancelled")),
)
ORDERS = {
    "when": ("queued_at", "pk"),
    "-when": ("-queued_at", "-pk"),
    "document": ("document__name", "-pk"),
    "-document": ("-document__name", "-pk"),
}
# One request retries at most so many; the page says how many are left.
MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Filters:
    """What the address asks for; nonsense counts as absent."""

    tab: str
    state: str
    base: str
    query: str
    editable: bool

    @classmethod
    def of(cls, data: QueryDict) -> Filters:
        tab, state = data.get("tab", ""), data.get("state", "")
        return cls(
            tab=tab if tab in dict(TABS) else "all",
            state=state if state in dict(STATES) else "",
            base=data.get("base", "")[:16].replace("\x00", ""),
            query=" ".join(data.get("q", "").replace("\x00", "").split())[:200],
            editable=data.get("can") == "edit",
        )

    @property
    def narrows(self) -> bool:
        return bool(self.state or self.base or self.query or self.editable)

    def address(self, **changes: str) -> str:
        """The page's address with these filters, from the first page on."""
        values = {
            "tab": "" if self.tab == "all" else self.tab,
            "state": self.state,
            "base": self.base,
            "q": self.query,
            "can": "edit" if self.editable else "",
            **changes,
        }
        kept = {name: value for name, value in values.items() if value}
        return "/tasks/?" + urlencode(kept) if kept else "/tasks/"

    def rows(self, principal: Principal, at_least: Role = Role.VIEWER) -> QuerySet[worklist.Task]:
        """The tasks of all tabs that these filters let through."""
        found = worklist.tasks(principal, Role.EDITOR if self.editable else at_least)
        if self.base:
            found = found.filter(base__uid=self.base)
        if self.query:
            found = found.filter(document__name__icontains=self.query)
        return worklist.in_state(found, self.state) if self.state else found

    def in_tab(self, rows: QuerySet[worklist.Task]) -> QuerySet[worklist.Task]:
        return rows if self.tab == "all" else rows.filter(bucket=self.tab)


@require_safe
@signed_in
def tasks(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/tasks/?tab=&state=&base=&q=&can=edit`."""
    topics = topics_of(principal)
    filters = Filters.of(request.GET)
    everything = filters.rows(principal)
    counts = worklist.counts(everything)
    sort = request.GET.get("sort", "")
    sort = sort if sort in ORDERS else "-when"
    rows = filters.in_tab(everything).order_by(*ORDERS[sort]).select_related("document__base", "created_by")
    page = page_of(request, rows)
    _say_what_may_be_done(principal, page.object_list)
    retryable = retryable_rows(principal, filters).count() if any(row.may_retry for row in page.object_list) else 0
    context = {
        "topics": topics,
        "filters": filters,
        "sort": sort,
        "tabs": [
            (name, label, getattr(counts, name), filters.address(tab="" if name == "all" else name))
            for name, label in TABS
        ],
        "states": STATES,
        "bases": visible_bases(principal).order_by("name", "pk"),
        "page": page,
        "retryable": retryable,
        "here": request.get_full_path(),
    }
    return render(request, "pages/tasks.html", context)


def _say_what_may_be_done(principal: Principal, rows: Any) -> None:
    """Each row learns whether this person may retry or cancel it."""
    editable = set(visible_bases(principal, Role.EDITOR).values_list("pk", flat=True))
    for row in rows:
        mine = row.base_id in editable
        row.may_retry = mine and row.is_newest and row.status in lifecycle.RETRYABLE
        row.may_review = mine and row.status == Revision.Status.REVIEW
        row.may_cancel = mine and row.status in lifecycle.OPEN and not row.cancel_requested


def retryable_rows(principal: Principal, filters: Filters) -> QuerySet[worklist.Task]:
    """Of what the filters show, that which this person may start again: the newest of its document, and ended."""
    rows = filters.in_tab(filters.rows(principal, Role.EDITOR))
    return worklist.newest_first(rows.filter(is_newest=True, status__in=lifecycle.RETRYABLE))


@require_safe
@signed_in
def task(request: PortalRequest, principal: Principal, uid: str) -> HttpResponse:
    """The page of one task: its steps, attempts and reason codes."""
    access_revision(principal, uid)
    row = worklist.tasks(principal).select_related("document__base", "created_by").get(uid=uid)
    _say_what_may_be_done(principal, [row])
    topic = f"base:{row.document.base.uid}"
    context = {
        "task": row,
        "attempts": row.history.all()[:50],
        "topics": [pair for pair in topics_of(principal) if pair[0] == topic],
        "here": request.get_full_path(),
    }
    return render(request, "pages/task.html", context)


@require_POST
@signed_in
def retry_one(request: PortalRequest, principal: Principal, uid: str) -> HttpResponse:
    """Start one failed, cancelled or empty revision again."""
    lifecycle.retry(principal, access_revision(principal, uid, Role.EDITOR))
    say(request, gettext("Queued again"))
    return back(request, "/tasks/")


@require_POST
@signed_in
def cancel(request: PortalRequest, principal: Principal, uid: str) -> HttpResponse:
    """Stop one; a worker that is at it stops at its next step."""
    lifecycle.cancel(principal, access_revision(principal, uid, Role.EDITOR))
    say(request, gettext("Cancelling"))
    return back(request, "/tasks/")


def _as_many_as_chosen(found: int, expected: str) -> None:
    """What came in since somebody said "all" was not meant by it."""
    if expected.isdecimal() and found > int(expected):
        raise Conflict("More tasks match now than when you chose them; look at the list again.", code="selection_grew")


@require_POST
@signed_in
def retry_many(request: PortalRequest, principal: Principal) -> HttpResponse:
    """Start the ticked ones again, or all that the filter matches but the excluded ones."""
    if request.POST.get("scope") == "all":
        filters = Filters.of(QueryDict(request.POST.get("filter", "")))
        rows = retryable_rows(principal, filters)
        _as_many_as_chosen(rows.count(), request.POST.get("expected", ""))
        rows = rows.exclude(uid__in=request.POST.getlist("exclude"))
    else:
        everything = Filters.of(QueryDict())
        rows = retryable_rows(principal, everything).filter(uid__in=request.POST.getlist("ids"))
    chosen = list(rows[: MOST_AT_ONCE + 1])
    queued = 0
    for row in chosen[:MOST_AT_ONCE]:
        try:
            lifecycle.retry(principal, row)
        except Conflict:
            # Somebody else was quicker, or a newer revision came in meanwhile.
            continue
        queued += 1
    text = ngettext("%(n)s task queued again", "%(n)s tasks queued again", queued) % {"n": queued}
    if len(chosen) > MOST_AT_ONCE:
        text = gettext("%(done)s; retry once more for the rest") % {"done": text}
    say(request, text)
    return back(request, "/tasks/")
