"""Bases, their settings and grants."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from knowledge import bases
from knowledge.access import access_base, visible_bases, with_role
from knowledge.api import serializers as shapes
from knowledge.models import Grant, KnowledgeBase, Role
from knowledge.quality import gate
from portal.kernel.errors import NotFound
from portal.kernel.models import Department, User
from portal.kernel.reading import asker, checked


class BaseViewSet(GenericViewSet[KnowledgeBase]):
    """Knowledge bases that the asker may see."""

    serializer_class = shapes.BaseSerializer
    lookup_field = "uid"
    lookup_url_kwarg = "base"
    read_scopes = ("kb:read",)
    write_scopes = ("kb:manage",)
    queryset = KnowledgeBase.objects.none()

    def get_queryset(self) -> QuerySet[KnowledgeBase]:
        principal = asker(self.request)
        live = Count("documents", filter=Q(documents__deleted_at__isnull=True))
        rows = with_role(principal, visible_bases(principal))
        return rows.annotate(document_count=live).select_related("embedding").order_by("name")

    def _shown(self, uid: str, code: int = status.HTTP_200_OK) -> Response:
        """The base as it is now; nothing when the change has taken it out of the asker's sight."""
        row = self.get_queryset().filter(uid=uid).first()
        if row is None:
            return Response(status=status.HTTP_204_NO_CONTENT)
        return Response(self.get_serializer(row).data, status=code)

    @extend_schema(parameters=[OpenApiParameter("q", description="What the name holds.")])
    def list(self, request: Request) -> Response:
        rows = self.get_queryset()
        if term := request.query_params.get("q"):
            rows = rows.filter(name__icontains=term)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(request=shapes.BaseInput)
    def create(self, request: Request) -> Response:
        base = bases.create(asker(request), **checked(shapes.BaseInput(data=request.data)))
        return self._shown(base.uid, status.HTTP_201_CREATED)

    def retrieve(self, request: Request, base: str) -> Response:
        access_base(asker(request), base)
        return self._shown(base)

    @extend_schema(request=shapes.BaseChange)
    def partial_update(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        bases.describe(asker(request), row, **checked(shapes.BaseChange(data=request.data)))
        return self._shown(base)

    def destroy(self, request: Request, base: str) -> Response:
        bases.delete(asker(request), access_base(asker(request), base, Role.OWNER))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=shapes.SectionInput, responses=shapes.BaseSerializer)
    @action(detail=True, methods=["put"], url_path=r"settings/(?P<section>[a-z]+)")
    def section(self, request: Request, base: str, section: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        data = checked(shapes.SectionInput(data=request.data))
        outcome = gate.save_settings(asker(request), row, section, data["values"], version=data["version"])
        if outcome.state != "saved" and outcome.run is not None:
            # Not saved (yet): the run of the evaluation set tells why, and decides.
            return Response({"state": outcome.state, "run": outcome.run.uid}, status=status.HTTP_202_ACCEPTED)
        return self._shown(base)

    @extend_schema(request=shapes.ReasonInput, responses=shapes.BaseSerializer)
    @action(detail=True, methods=["post"], url_path="break-glass")
    def break_glass(self, request: Request, base: str) -> Response:
        """For workspace admins: open a sensitive base for an hour; its owners are told."""
        bases.break_glass(asker(request), base, checked(shapes.ReasonInput(data=request.data))["reason"])
        return self._shown(base)

    @extend_schema(request=shapes.ReasonInput, responses={202: None})
    @action(detail=True, methods=["post"], url_path="ask-access")
    def ask_access(self, request: Request, base: str) -> Response:
        """Ask the owners of a base for access. Answers 202 whether or not there is such a base."""
        bases.ask_access(asker(request), base, checked(shapes.ReasonInput(data=request.data))["reason"])
        return Response(status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=shapes.GrantInput, responses=shapes.GrantSerializer(many=True))
    @action(detail=True, methods=["get", "post"], url_path="grants", pagination_class=None)
    def grants(self, request: Request, base: str) -> Response:
        """Who was granted what; POST gives a person or a department a role."""
        principal = asker(request)
        row = access_base(principal, base, Role.OWNER)
        if request.method == "POST":
            data = checked(shapes.GrantInput(data=request.data))
            grant = bases.grant(
                principal,
                row,
                Role(data["role"]),
                user=_member(principal.workspace_id, data["user"]),
                department=_department(principal.workspace_id, data["department"]),
            )
            return Response(shapes.GrantSerializer(grant).data, status=status.HTTP_201_CREATED)
        rows = Grant.objects.filter(base=row).select_related("user", "department").order_by("id")
        return Response(shapes.GrantSerializer(rows, many=True).data)

    @extend_schema(request=None, responses={204: None})
    @action(detail=True, methods=["delete"], url_path=r"grants/(?P<grant>\d+)")
    def grant(self, request: Request, base: str, grant: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        found = Grant.objects.filter(base=row, pk=grant).select_related("user", "department").first()
        if found is None:
            raise NotFound("Not found, or you don't have access.")
        bases.revoke(asker(request), row, found)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _member(workspace_id: int, uid: str | None) -> User | None:
    if uid is None:
        return None
    user = User.objects.filter(uid=uid, memberships__workspace_id=workspace_id).first()
    if user is None:
        raise NotFound("There is no such person in the workspace.")
    return user


def _department(workspace_id: int, uid: str | None) -> Department | None:
    if uid is None:
        return None
    row = Department.objects.filter(uid=uid, workspace_id=workspace_id).first()
    if row is None:
        raise NotFound("There is no such department in the workspace.")
    return row
