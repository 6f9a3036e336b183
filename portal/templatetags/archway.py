"""Template tags of our pages: `{% load archway %}`. See static/README.md for what to use where."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.core.paginator import Page
from django.http import QueryDict
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_lazy, ngettext

from knowledge import worklist
from knowledge.models import Document, KnowledgeBase, Revision
from portal.kernel.errors import sentence_of
from portal.kernel.pages import PAGE_SIZES
from portal.pages.icons import ICONS

register = template.Library()

# state -> (tone, icon, what to do next)
STATES: dict[str, tuple[str, str, Any]] = {
    "pending": ("neutral", "clock", gettext_lazy("Waiting for a worker; you can cancel it.")),
    "parsing": ("info", "working", gettext_lazy("Reading the file; you can cancel it.")),
    "segmenting": ("info", "working", gettext_lazy("Splitting the text; you can cancel it.")),
    "vectorizing": ("info", "working", gettext_lazy("Making it searchable; you can cancel it.")),
    "review": ("warn", "eye", gettext_lazy("Look at the chunks, then approve or send back.")),
    "indexed": ("ok", "check-circle", gettext_lazy("Ask about it.")),
    "no_text": ("warn", "blank", gettext_lazy("Replace the file with one that holds text.")),
    "failed": ("bad", "cross-circle", gettext_lazy("Read the reason, then retry.")),
    "cancelled": ("neutral", "stop", gettext_lazy("Start it again when you need it.")),
}
STAGES = {
    "pending": gettext_lazy("Queued"),
    "parsing": gettext_lazy("Parsing"),
    "segmenting": gettext_lazy("Splitting"),
    "vectorizing": gettext_lazy("Vectorizing"),
}
UNITS = {
    "page": gettext_lazy("pages"),
    "chunk": gettext_lazy("chunks"),
    "passage": gettext_lazy("passages"),
    "block": gettext_lazy("blocks"),
    "row": gettext_lazy("rows"),
    "sheet": gettext_lazy("sheets"),
    "slide": gettext_lazy("slides"),
    "character": gettext_lazy("characters"),
    "byte": gettext_lazy("bytes"),
}


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """A decorative icon; what it means stands beside it, or in the control's aria-label."""
    # Both parts are ours: the table of drawings, and a class name from a template.
    return format_html(
        '<svg class="icon {}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">{}</svg>',
        extra,
        mark_safe(ICONS[name]),  # noqa: S308
    )


@register.inclusion_tag("components/badge.html")
def badge(revision: Revision) -> dict[str, Any]:
    """A revision's state with icon and word; its tooltip says since when and what comes next."""
    tone, drawing, advice = STATES[revision.status]
    label: Any = revision.get_status_display()
    if revision.cancel_requested:
        tone, drawing, label, advice = "neutral", "stop", gettext("Cancelling"), gettext("Stops at its next step.")
    elif worklist.is_stuck(revision):
        tone, drawing, label = "warn", "pause", gettext("Stuck")
        advice = gettext("No sign of life for 5 minutes; cancel it and start it again.")
    since = revision.finished_at or revision.started_at or revision.queued_at
    return {"tone": tone, "icon": drawing, "label": label, "advice": advice, "since": since, "state": revision.status}


@register.inclusion_tag("components/badge.html")
def state_badge(state: str) -> dict[str, Any]:
    """The badge of a state without a revision: in filters, legends and the templates that scripts clone."""
    tone, drawing, _ = STATES[state]
    return {"tone": tone, "icon": drawing, "label": Revision.Status(state).label, "state": state}


@register.simple_tag
def states() -> list[str]:
    """All states of a revision, for the templates that scripts clone."""
    return list(STATES)


@register.simple_tag
def stage(name: str) -> str:
    """A stage of the work in words."""
    return str(STAGES.get(name, name))


@register.inclusion_tag("components/progress.html")
def progress(revision: Revision) -> dict[str, Any]:
    """Step, bar, done of total and elapsed time of work that is going on; nothing for work that has ended."""
    from knowledge import lifecycle

    running = revision.status in lifecycle.OPEN
    started = revision.started_at
    return {
        "running": running,
        "revision": revision,
        "step": lifecycle.STEPS.get(Revision.Status(revision.status), 0),
        "steps": 5,
        "units": UNITS.items(),
        "unit": UNITS.get(revision.unit, revision.unit),
        "elapsed": duration(timezone.now() - started) if running and started else "",
    }


@register.simple_tag
def reason(row: Any) -> str:
    """Why a revision (or an attempt) failed, in the reader's language; empty when it did not."""
    message: Any = getattr(row, "error_message", None) or getattr(row, "message", "")
    params = getattr(row, "error_params", None) or getattr(row, "params", {})
    return sentence_of(message, params)


@register.simple_tag
def moment(value: datetime | None, form: str = "relative") -> SafeString | str:
    """A `<time>` with zone on hover and focus. `relative`: 2 hours ago, older a date; `clock`: 14:02; `full`."""
    if value is None:
        return "—"
    local = timezone.localtime(value)
    full = f"{formats.date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"
    if form == "full":
        shown = full
    elif form == "clock":
        shown = formats.date_format(local, "H:i")
        if local.date() != timezone.localdate():
            shown = f"{formats.date_format(local, 'SHORT_DATE_FORMAT')} {shown}"
    elif abs(timezone.now() - value) < timedelta(days=7):
        shown = naturaltime(value)
    else:
        shown = formats.date_format(local, "SHORT_DATE_FORMAT")
    return format_html(
        '<time class="moment" tabindex="0" datetime="{}" data-full="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        full,
        # Django parts number and unit by a no-break space; plain ones let narrow cells wrap.
        str(shown).replace("\xa0", " "),
    )


@register.filter
def day(value: date | None) -> str:
    """A date as the reader's language writes it."""
    return formats.date_format(value, "DATE_FORMAT") if value else "—"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """A length of time in the two largest units: `3 min 20 s`."""
    if value is None:
        return "—"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 10:
        return gettext("%(n)s s") % {"n": formats.number_format(max(seconds, 0), 1)}
    whole = round(seconds)
    if whole < 60:
        return gettext("%(n)s s") % {"n": whole}
    if whole < 3600:
        return gettext("%(m)s min %(s)s s") % {"m": whole // 60, "s": whole % 60}
    if whole < 86_400:
        return gettext("%(h)s h %(m)s min") % {"h": whole // 3600, "m": whole % 3600 // 60}
    return ngettext("%(n)s day", "%(n)s days", whole // 86_400) % {"n": whole // 86_400}


@register.filter
def took(row: Any) -> str:
    """How long a revision or an attempt took, or has been going on."""
    start = row.started_at
    end = getattr(row, "finished_at", None) or getattr(row, "ended_at", None)
    return duration((end or timezone.now()) - start) if start else "—"


@register.filter
def number(value: int | float) -> str:
    """Thousands grouped as the reader's language does: 1,240."""
    return formats.number_format(value, use_l10n=True, force_grouping=True)


@register.filter
def base_path(base: KnowledgeBase) -> str:
    """The address of a base: its documents."""
    return f"/bases/{base.uid}/documents/"


@register.filter
def document_path(document: Document) -> str:
    """The address of a document's reader. Needs `document.base`."""
    return f"/bases/{document.base.uid}/documents/{document.uid}/"


@register.inclusion_tag("components/sort_header.html", takes_context=True)
def sort_header(context: template.Context, key: str, label: str, current: str, style: str = "") -> dict[str, Any]:
    """A column head that sorts by `key`, or the other way round by `-key`; `current` is the sort now."""
    query: QueryDict = context["request"].GET.copy()
    query.pop("page", None)
    query["sort"] = f"-{key}" if current == key else key
    way = "ascending" if current == key else "descending" if current == f"-{key}" else "none"
    drawing = {"ascending": "up", "descending": "down", "none": "sort"}[way]
    return {"query": query.urlencode(), "label": label, "way": way, "icon": drawing, "style": style}


@register.inclusion_tag("components/pagination.html", takes_context=True)
def pagination(context: template.Context, page: Page[Any], label: str = "") -> dict[str, Any]:
    """Range, numbers and page size of a list; filters of the address are kept."""
    query: QueryDict = context["request"].GET.copy()
    query.pop("page", None)
    plain = query.copy()
    plain.pop("size", None)
    return {
        "page": page,
        "numbers": list(page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1)),
        "gap": page.paginator.ELLIPSIS,
        "query": query.urlencode(),
        "plain": plain.urlencode(),
        "sizes": PAGE_SIZES,
        "label": label,
    }
