"""Views of the account and of the workspace; each checks the shape, fetches with access and calls one verb."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import notices
from knowledge.access import closed_bases, visible_bases
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel import keys, notify, people
from portal.kernel.errors import Denied, Invalid, NotFound
from portal.kernel.models import ApiKey, AuditEntry, Department, Membership, Notification, User, Workspace
from portal.kernel.principal import SCOPES, Principal, is_workspace_admin
from portal.kernel.reading import asker, checked


class HealthView(APIView):
    """Whether the process answers; `/readyz` says whether it can work."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    @extend_schema(responses=inline_serializer("Health", {"status": serializers.CharField()}))
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class MeView(APIView):
    """Who asks, in which workspace, with which scopes."""

    @extend_schema(
        responses=inline_serializer(
            "Me",
            {
                "id": serializers.CharField(),
                "name": serializers.CharField(),
                "workspace": serializers.CharField(),
                "workspace_name": serializers.CharField(),
                "admin": serializers.BooleanField(),
                "scopes": serializers.ListField(child=serializers.CharField()),
            },
        )
    )
    def get(self, request: Request) -> Response:
        principal = asker(request)
        user = User.objects.get(pk=principal.user_id)
        workspace = Workspace.objects.get(pk=principal.workspace_id)
        return Response(
            {
                "id": user.uid,
                "name": str(user),
                "workspace": workspace.uid,
                "workspace_name": workspace.name,
                "admin": is_workspace_admin(principal),
                "scopes": sorted(principal.scopes),
            }
        )


class KeySerializer(serializers.ModelSerializer[ApiKey]):
    """A key without its secret."""

    id = serializers.CharField(source="uid", read_only=True)
    owner = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)

    class Meta:
        model = ApiKey
        fields = [
            "id", "name", "prefix", "owner", "scopes", "per_minute", "expires_at", "last_used_at", "revoked_at",
            "created_at",
        ]  # fmt: skip


class KeyInput(serializers.Serializer[Any]):
    """`bases` (uids) narrows the key; left out, it reaches every base that its owner sees."""

    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=SCOPES), allow_empty=False)
    bases = serializers.ListField(child=serializers.CharField(), required=False, allow_null=True, default=None)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    per_minute = serializers.IntegerField(required=False, default=120, min_value=1, max_value=10_000)


class KeyViewSet(GenericViewSet[ApiKey]):
    """The asker's keys (a workspace admin sees all). The secret is in the answer to POST and nowhere else.

    For people, and for keys with the scope `admin`: a key that leaks must not outlive its end in another one.
    """

    serializer_class = KeySerializer
    read_scopes = write_scopes = ("admin",)
    lookup_url_kwarg = "key"
    queryset = ApiKey.objects.none()

    def list(self, request: Request) -> Response:
        rows = ApiKey.objects.filter(keys.visible_keys(asker(request))).select_related("owner").order_by("-id")
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(
        request=KeyInput,
        responses={201: inline_serializer("NewKey", {"key": KeySerializer(), "secret": serializers.CharField()})},
    )
    def create(self, request: Request) -> Response:
        principal = asker(request)
        data = checked(KeyInput(data=request.data))
        key, secret = keys.create(
            principal,
            name=data["name"],
            scopes=data["scopes"],
            base_ids=base_ids_of(principal, data["bases"]),
            expires_at=data["expires_at"],
            per_minute=data["per_minute"],
        )
        return Response({"key": self.get_serializer(key).data, "secret": secret}, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, key: str) -> Response:
        """Revoke."""
        row = ApiKey.objects.filter(keys.visible_keys(asker(request)), uid=key).first()
        if row is None:
            raise NotFound("Not found, or you don't have access.")
        keys.revoke(asker(request), row)
        return Response(status=status.HTTP_204_NO_CONTENT)


def base_ids_of(principal: Principal, uids: list[str] | None) -> list[int] | None:
    """The primary keys of visible bases by uid; `Invalid` when one is not among them."""
    if uids is None:
        return None
    found = dict(visible_bases(principal).filter(uid__in=uids).values_list("uid", "id"))
    if set(uids) - set(found):
        raise Invalid("One of the bases was not found, or you don't have access.", code="base_unknown")
    return sorted(found.values())


class NotificationSerializer(serializers.ModelSerializer[Notification]):
    """A line in the bell, worded in the reader's language."""

    id = serializers.CharField(source="uid", read_only=True)
    text = serializers.SerializerMethodField()

    class Meta:
        model = Notification
        fields = ["id", "kind", "text", "link", "created_at", "read_at"]

    def get_text(self, row: Notification) -> str:
        return notify.sentence(row.kind, row.params)


class ReadInput(serializers.Serializer[Any]):
    """Which notifications were read; left out, all of them."""

    ids = serializers.ListField(child=serializers.CharField(), required=False, allow_null=True, default=None)


class NotificationView(GenericViewSet[Notification]):
    """The asker's bell; POST marks as read (`{"ids": [...]}`, or all)."""

    serializer_class = NotificationSerializer
    read_scopes = write_scopes = ("kb:read",)
    queryset = Notification.objects.none()

    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(notices.readable(asker(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def mark_read(self, request: Request) -> Response:
        data = checked(ReadInput(data=request.data or {}))
        return Response({"read": notices.mark_read(asker(request), data["ids"])})


def require_admin(principal: Principal) -> None:
    """Raise `Denied` unless the asker is an admin of the workspace."""
    if not is_workspace_admin(principal):
        raise Denied("Only an admin of the workspace can do this.", code="not_admin")


class EndpointSerializer(serializers.ModelSerializer[ModelEndpoint]):
    """A model that can be used; nothing of its address or credential."""

    id = serializers.CharField(source="uid", read_only=True)

    class Meta:
        model = ModelEndpoint
        fields = ["id", "name", "kind", "provider", "model_name", "is_default"]


class EndpointView(GenericViewSet[ModelEndpoint]):
    """The models that the asker may use, the default first: `?kind=chat`, `rerank` or (unless told) `embedding`."""

    serializer_class = EndpointSerializer
    read_scopes = ("kb:read",)
    queryset = ModelEndpoint.objects.none()

    @extend_schema(parameters=[OpenApiParameter("kind", enum=[kind.value for kind in ModelEndpoint.Kind])])
    def list(self, request: Request) -> Response:
        kind = request.query_params.get("kind", ModelEndpoint.Kind.EMBEDDING)
        if kind not in ModelEndpoint.Kind.values:
            raise Invalid("There is no such kind of model.", code="kind_unknown")
        rows = visible_endpoints(asker(request), ModelEndpoint.Kind(kind))
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)


class DepartmentSerializer(serializers.ModelSerializer[Department]):
    """A node of the tree."""

    id = serializers.CharField(source="uid", read_only=True)
    parent = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)  # type: ignore[assignment]

    class Meta:
        model = Department
        fields = ["id", "name", "parent"]


class DepartmentInput(serializers.Serializer[Any]):
    """A new department."""

    name = serializers.CharField(max_length=200)
    parent = serializers.CharField(required=False, allow_null=True, default=None)  # type: ignore[assignment]


def department_of(principal: Principal, uid: str | None) -> Department | None:
    """A department of the asker's workspace, or `NotFound`."""
    if uid is None:
        return None
    row = Department.objects.filter(uid=uid, workspace_id=principal.workspace_id).first()
    if row is None:
        raise NotFound("There is no such department in the workspace.")
    return row


class DepartmentViewSet(GenericViewSet[Department]):
    """The department tree of the workspace; admins change it."""

    serializer_class = DepartmentSerializer
    lookup_url_kwarg = "department"
    pagination_class = None
    read_scopes = ("kb:read", "admin")
    write_scopes = ("admin",)
    queryset = Department.objects.none()

    def list(self, request: Request) -> Response:
        rows: QuerySet[Department] = Department.objects.filter(workspace_id=asker(request).workspace_id)
        return Response(self.get_serializer(rows.select_related("parent").order_by("lineage"), many=True).data)

    @extend_schema(request=DepartmentInput)
    def create(self, request: Request) -> Response:
        principal = asker(request)
        require_admin(principal)
        data = checked(DepartmentInput(data=request.data))
        workspace = Workspace.objects.get(pk=principal.workspace_id)
        row = people.create_department(principal, workspace, data["name"], department_of(principal, data["parent"]))
        return Response(self.get_serializer(row).data, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, department: str) -> Response:
        principal = asker(request)
        row = department_of(principal, department)
        require_admin(principal)
        assert row is not None
        people.delete_department(principal, row)
        return Response(status=status.HTTP_204_NO_CONTENT)


class MemberSerializer(serializers.ModelSerializer[Membership]):
    """A person in the workspace."""

    id = serializers.CharField(source="user.uid", read_only=True)
    name = serializers.CharField(source="user", read_only=True)
    department = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)

    class Meta:
        model = Membership
        fields = ["id", "name", "role", "department", "created_at"]


class MemberInput(serializers.Serializer[Any]):
    """Role and department of a member."""

    role = serializers.ChoiceField(choices=Membership.Role.choices)
    department = serializers.CharField(required=False, allow_null=True, default=None)


class NewMemberInput(MemberInput):
    """A person with an account, by exact user name."""

    username = serializers.CharField(max_length=150)


class PeopleView(GenericViewSet[User]):
    """Names and ids of the workspace's people, for giving grants: `?q=`."""

    read_scopes = ("kb:manage", "admin")
    queryset = User.objects.none()
    serializer_class = inline_serializer(
        "Person", {"id": serializers.CharField(source="uid"), "name": serializers.CharField(source="__str__")}
    ).__class__

    @extend_schema(parameters=[OpenApiParameter("q", description="What the name holds.")])
    def list(self, request: Request) -> Response:
        rows = User.objects.filter(memberships__workspace_id=asker(request).workspace_id, is_active=True)
        if term := request.query_params.get("q"):
            rows = rows.filter(Q(username__icontains=term) | Q(display_name__icontains=term))
        page = self.paginate_queryset(rows.order_by("username"))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class MemberViewSet(GenericViewSet[Membership]):
    """The members of the workspace, for its admins."""

    serializer_class = MemberSerializer
    lookup_url_kwarg = "user"
    read_scopes = write_scopes = ("admin",)
    queryset = Membership.objects.none()

    def _rows(self, principal: Principal) -> QuerySet[Membership]:
        require_admin(principal)
        return (
            Membership.objects.filter(workspace_id=principal.workspace_id)
            .select_related("user", "department")
            .order_by("user__username")
        )

    def _row(self, principal: Principal, uid: str) -> Membership:
        row = self._rows(principal).filter(user__uid=uid).first()
        if row is None:
            raise NotFound("Not found, or you don't have access.")
        return row

    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self._rows(asker(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(request=NewMemberInput)
    def create(self, request: Request) -> Response:
        """Add somebody who has an account, by their exact user name."""
        principal = asker(request)
        require_admin(principal)
        data = checked(NewMemberInput(data=request.data))
        user = User.objects.filter(username__iexact=data["username"], is_active=True).first()
        if user is None:
            raise NotFound("There is no such person; ask the operator to make the account.", code="person_unknown")
        row = people.set_membership(
            principal,
            Workspace.objects.get(pk=principal.workspace_id),
            user,
            role=Membership.Role(data["role"]),
            department=department_of(principal, data["department"]),
        )
        return Response(self.get_serializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=MemberInput)
    def update(self, request: Request, user: str) -> Response:
        principal = asker(request)
        row = self._row(principal, user)
        data = checked(MemberInput(data=request.data))
        changed = people.set_membership(
            principal,
            row.workspace,
            row.user,
            role=Membership.Role(data["role"]),
            department=department_of(principal, data["department"]),
        )
        return Response(self.get_serializer(changed).data)

    def destroy(self, request: Request, user: str) -> Response:
        people.remove_membership(asker(request), self._row(asker(request), user))
        return Response(status=status.HTTP_204_NO_CONTENT)


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    """One line of the audit log."""

    actor = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)

    class Meta:
        model = AuditEntry
        fields = ["id", "at", "actor", "door", "action", "object_type", "object_id", "detail", "position", "seal"]


class AuditView(GenericViewSet[AuditEntry]):
    """The audit log of the workspace, for its admins; `?action=grant.` filters by prefix.

    Of what happened in a base that is closed to the asker, `detail` is left empty: it holds names and words.
    """

    serializer_class = AuditSerializer
    read_scopes = ("admin",)
    queryset = AuditEntry.objects.none()

    @extend_schema(parameters=[OpenApiParameter("action", description="What the action begins with: `grant.`.")])
    def list(self, request: Request) -> Response:
        principal = asker(request)
        require_admin(principal)
        rows = AuditEntry.objects.filter(workspace_id=principal.workspace_id).select_related("actor")
        if action := request.query_params.get("action"):
            rows = rows.filter(action__startswith=action)
        page: Any = self.paginate_queryset(rows)
        closed = set(closed_bases(principal).values_list("id", flat=True))
        for row in page:
            if not closed.isdisjoint(row.base_ids):
                row.detail = {}
        return self.get_paginated_response(self.get_serializer(page, many=True).data)
