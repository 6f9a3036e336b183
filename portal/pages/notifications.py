"""The bell's page: what happened that concerns this person, worded in their language, while they may see it."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import notices
from portal.kernel.errors import NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.notify import sentence
from portal.kernel.pages import page_of, safe_address, say, signed_in
from portal.kernel.principal import Principal


@require_safe
@signed_in
def notifications(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/notifications/`."""
    rows = notices.readable(principal)
    unread_only = request.GET.get("show") == "unread"
    page = page_of(request, rows.filter(read_at__isnull=True) if unread_only else rows)
    for row in page.object_list:
        row.text = sentence(row.kind, row.params)
    context = {"page": page, "total": rows.count(), "unread_only": unread_only}
    return render(request, "pages/notifications.html", context)


@require_safe
@signed_in
def follow(request: PortalRequest, principal: Principal, uid: str) -> HttpResponse:
    """Mark one as read and go where it points."""
    row = notices.readable(principal).filter(uid=uid).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    notices.mark_read(principal, [row.uid])
    return HttpResponseRedirect(row.link if row.link and safe_address(request, row.link) else "/notifications/")


@require_POST
@signed_in
def read_all(request: PortalRequest, principal: Principal) -> HttpResponse:
    """Mark all as read."""
    notices.mark_read(principal)
    say(request, gettext("All notifications marked as read"))
    return HttpResponseRedirect("/notifications/")
