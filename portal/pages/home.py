"""Home: a question, what waits for a person, and where they left off."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.access import visible_bases, visible_documents
from knowledge.asking import readable_records
from knowledge.models import QueryRecord
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import signed_in
from portal.kernel.principal import Principal
from portal.pages.following import topics_of

RECENT = 6


@require_safe
@signed_in
def home(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/`."""
    topics = topics_of(principal)
    documents = visible_documents(principal).select_related("base").order_by("-updated_at")[:RECENT]
    questions = readable_records(principal, QueryRecord.Kind.ASK, limit=RECENT)
    context = {
        "topics": topics,
        "documents": documents,
        "questions": questions,
        "has_bases": bool(topics) or visible_bases(principal).exists(),
    }
    return render(request, "pages/home.html", context)


@require_safe
@signed_in
def shell_counts(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The counts of the top bar, which scripts read again when something has happened."""
    return render(request, "components/shell_counts.html")
