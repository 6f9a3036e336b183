"""The top bar's search: bases and documents by name. What stands inside documents is asked, not searched here."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.access import visible_bases, visible_documents
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, signed_in
from portal.kernel.principal import Principal

MOST_BASES = 12


@require_safe
@signed_in
def search(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/search/?q=`."""
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:200]
    bases = visible_bases(principal).filter(name__icontains=query).order_by("name", "pk")
    documents = visible_documents(principal).filter(name__icontains=query).select_related("base")
    if not query:
        bases, documents = bases.none(), documents.none()
    context = {
        "query": query,
        "shell_search": query,
        "bases": bases[:MOST_BASES],
        "page": page_of(request, documents.order_by("name", "pk"), default=20),
    }
    return render(request, "pages/search.html", context)
