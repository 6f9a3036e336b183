"""What every admin class of knowledge shares: which rows an asker sees."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from knowledge.access import visible_bases
from knowledge.models import KnowledgeBase, Role
from portal.kernel.admin_door import ScopedAdmin, asker, is_operator


class KnowledgeAdmin(ScopedAdmin):
    """Rows of bases that the asker may see. Sensitive bases stay closed here as on every door."""

    base_path = "base_id"

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows.filter(**{f"{self.base_path}__in": seen_bases(request).values("id")})


def seen_bases(request: HttpRequest) -> QuerySet[KnowledgeBase]:
    """The bases that an admin manages; for an operator, the ordinary bases of all workspaces besides.

    All that is listed can be changed here, so a sensitive base that is merely shared for reading is not.
    """
    principal = asker(request)
    own = visible_bases(principal, Role.OWNER) if principal else KnowledgeBase.objects.none()
    if not is_operator(request):
        return own
    ordinary = KnowledgeBase.objects.filter(sensitive=False, deleted_at__isnull=True)
    return KnowledgeBase.objects.filter(id__in=own.values("id").union(ordinary.values("id")))
