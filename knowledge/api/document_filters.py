"""The filters of the document list as query parameters; what they mean is decided in `knowledge/selection.py`."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet

from knowledge import selection
from knowledge.access import access_base
from knowledge.ingestion.parsers import BY_MIME
from knowledge.models import Document
from portal.kernel.reading import asker

# One type by its extension ("pdf"), or by its MIME type.
_TYPES = [*selection.TYPES, *((mime, row.label) for mime, row in BY_MIME.items())]


class DocumentFilter(django_filters.FilterSet):
    """`?q=&state=&tag=&folder=&type=&changed=&changed_from=&changed_to=&review=&owner=&enabled=&sort=`"""

    q = django_filters.CharFilter(max_length=200)
    state = django_filters.ChoiceFilter(choices=selection.STATES)
    tag = django_filters.CharFilter(max_length=60)
    folder = django_filters.CharFilter(max_length=800)
    type = django_filters.ChoiceFilter(choices=_TYPES)
    changed = django_filters.ChoiceFilter(choices=selection.CHANGED)
    changed_from = django_filters.DateFilter()
    changed_to = django_filters.DateFilter()
    review = django_filters.ChoiceFilter(choices=selection.REVIEWS)
    owner = django_filters.CharFilter(max_length=16)
    enabled = django_filters.BooleanFilter()
    sort = django_filters.ChoiceFilter(choices=[(f"{sign}{key}", key) for key in selection.SORTS for sign in ("", "-")])

    class Meta:
        model = Document
        fields: list[str] = []

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The same rows, in the same order, as the page with these filters."""
        data = self.form.cleaned_data
        principal = asker(self.request)
        base = access_base(principal, self.request.parser_context["kwargs"]["base"])
        filters = selection.Filters(
            query=data["q"] or "",
            state=data["state"] or "",
            tag=data["tag"] or "",
            type=BY_MIME[data["type"]].extensions[0] if data["type"] in BY_MIME else data["type"] or "",
            changed=data["changed"] or "",
            review=data["review"] or "",
            owner=data["owner"] or "",
            folder=(data["folder"] or "").strip("/"),
            sort=data["sort"] or selection.DEFAULT_SORT,
            since=data["changed_from"],
            until=data["changed_to"],
        )
        rows = selection.narrowed(selection.with_newest(queryset), principal, base, filters)
        return rows if data["enabled"] is None else rows.filter(enabled=data["enabled"])
