"""Who may use a base: grants to people and departments, who has access through them, adding, changing, removing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import bases as verbs
from knowledge.access import ORDER, access_base
from knowledge.models import Grant, KnowledgeBase, Role
from knowledge.pages.frame import base_frame
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import Department, Membership, User
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

# Names in the plain select, suggestions of the combobox, people listed below the grants.
MOST_CHOICES, MOST_SUGGESTED, MOST_LISTED = 500, 20, 200


@dataclass(frozen=True, slots=True)
class Through:
    """Somebody who has access without a grant of their own: through a department, or as admin of the workspace."""

    person: User
    role: Role
    via: str


def _grants(base: KnowledgeBase) -> list[Grant]:
    rows = Grant.objects.filter(base=base).select_related("user", "department", "created_by")
    return sorted(rows, key=lambda row: (-ORDER.index(Role(row.role)), str(row.user or row.department or row.channel)))


def _through(base: KnowledgeBase, grants: list[Grant]) -> list[Through]:
    """People reached by departments' grants and, on ordinary bases, the admins; each with the highest role."""
    own = {row.user_id for row in grants if row.user_id}
    found: dict[int, Through] = {}

    def offer(person: User, role: Role, via: str) -> None:
        known = found.get(person.pk)
        if person.pk not in own and (known is None or ORDER.index(role) > ORDER.index(known.role)):
            found[person.pk] = Through(person, role, via)

    members = Membership.objects.filter(workspace_id=base.workspace_id, user__is_active=True).select_related("user")
    for grant in grants:
        if grant.department is not None:
            inside = members.filter(department__lineage__contains=[grant.department_id])
            for membership in inside.order_by("user__display_name", "user__username")[:MOST_LISTED]:
                offer(membership.user, Role(grant.role), grant.department.name)
    if not base.sensitive:
        for membership in members.filter(role=Membership.Role.ADMIN)[:MOST_LISTED]:
            offer(membership.user, Role.OWNER, "")
    return sorted(found.values(), key=lambda row: str(row.person))[:MOST_LISTED]


def _candidates(base: KnowledgeBase, query: str, limit: int) -> list[tuple[str, str, str]]:
    """(value, name, detail) of departments and active people of the base's workspace whose name holds `query`."""
    departments = Department.objects.filter(workspace_id=base.workspace_id).select_related("parent")
    people = User.objects.filter(memberships__workspace_id=base.workspace_id, is_active=True)
    if query:
        departments = departments.filter(name__icontains=query)
        people = people.filter(Q(display_name__icontains=query) | Q(username__icontains=query))
    rows = [
        (f"department:{row.uid}", row.name, row.parent.name if row.parent else "")
        for row in departments.order_by("name", "pk")[:limit]
    ]
    rows += [
        (f"user:{row.uid}", str(row), row.username if row.display_name else "")
        for row in people.order_by("display_name", "username")[:limit]
    ]
    return rows[:limit]


@require_safe
@signed_in
def members(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/members/`."""
    return _page(request, access_base(principal, base, Role.OWNER))


def _page(request: PortalRequest, base: KnowledgeBase, **more: Any) -> HttpResponse:
    grants = _grants(base)
    choices = _candidates(base, "", MOST_CHOICES)
    context = {
        **base_frame(base, "members"),
        "grants": grants,
        "through": _through(base, grants),
        "only_me": len(grants) == 1 and grants[0].user_id == request.user.pk,
        "roles": Role.choices,
        "departments": [row for row in choices if row[0].startswith("department:")],
        "people": [row for row in choices if row[0].startswith("user:")],
        "chosen_subject": request.POST.get("subject", ""),
        "chosen_role": request.POST.get("role", Role.VIEWER),
        "me": request.user.pk,
        **more,
    }
    return render(request, "knowledge/members.html", context, status=422 if more else 200)


@require_safe
@signed_in
def candidates(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """People and departments of this workspace for the combobox: `?q=`. For those who manage the base."""
    row = access_base(principal, base, Role.OWNER)
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:100]
    found = _candidates(row, query, MOST_SUGGESTED)
    return JsonResponse(
        {"options": [{"value": value, "name": name, "detail": detail} for value, name, detail in found]}
    )


def _subject(base: KnowledgeBase, raw: str) -> dict[str, Any]:
    kind, _, uid = raw.partition(":")
    if kind == "user":
        user = User.objects.filter(uid=uid, memberships__workspace_id=base.workspace_id, is_active=True).first()
        if user is not None:
            return {"user": user}
    if kind == "department":
        department = Department.objects.filter(uid=uid, workspace_id=base.workspace_id).first()
        if department is not None:
            return {"department": department}
    raise Invalid("Choose a person or a department of this workspace.", code="subject_missing")


def _role(raw: str) -> Role:
    if raw not in Role.values:
        raise Invalid("Choose what they may do.", code="role_missing")
    return Role(raw)


def _home(base: KnowledgeBase) -> str:
    return f"/bases/{base.uid}/members/"


@require_POST
@signed_in
def add(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Give a person or a department a role; once more replaces it."""
    row = access_base(principal, base, Role.OWNER)
    try:
        subject = _subject(row, request.POST.get("subject", ""))
        verbs.grant(principal, row, _role(request.POST.get("role", "")), **subject)
    except (Invalid, Conflict) as error:
        return _page(request, row, add_error=error.sentence())
    name = next(iter(subject.values()))
    say(request, gettext("%(name)s has access now") % {"name": name})
    return HttpResponseRedirect(_home(row))


def _grant(base: KnowledgeBase, grant_id: int) -> Grant:
    if grant_id > 9_223_372_036_854_775_807:
        raise NotFound("Not found, or you don't have access.")
    row = Grant.objects.filter(base=base, pk=grant_id).select_related("user", "department").first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    return row


@require_POST
@signed_in
def change(request: PortalRequest, principal: Principal, base: str, grant: int) -> HttpResponse:
    """Give the subject of a grant another role."""
    row = access_base(principal, base, Role.OWNER)
    held = _grant(row, grant)
    try:
        if held.channel or held.expires_at:
            raise Conflict("This grant can only be removed.", code="not_changeable")
        verbs.grant(principal, row, _role(request.POST.get("role", "")), user=held.user, department=held.department)
    except (Invalid, Conflict) as error:
        return _page(request, row, row_error=error.sentence(), row_error_id=held.pk)
    return _after(request, principal, row)


@require_POST
@signed_in
def remove(request: PortalRequest, principal: Principal, base: str, grant: int) -> HttpResponse:
    """Take a grant away."""
    row = access_base(principal, base, Role.OWNER)
    held = _grant(row, grant)
    try:
        verbs.revoke(principal, row, held)
    except Conflict as error:
        return _page(request, row, row_error=error.sentence(), row_error_id=held.pk)
    return _after(request, principal, row)


def _after(request: PortalRequest, principal: Principal, base: KnowledgeBase) -> HttpResponse:
    """Back to the members; people who have just shut themselves out go to where they still may be."""
    say(request, gettext("Saved"))
    try:
        access_base(principal, base.uid, Role.OWNER)
    except NotFound:
        return HttpResponseRedirect("/bases/")
    except ArchwayError:
        return HttpResponseRedirect(f"/bases/{base.uid}/documents/")
    return HttpResponseRedirect(_home(base))
