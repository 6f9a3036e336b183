"""Credentials over REST: given, replaced, sealed anew, checked, revoked; no answer holds a secret."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from portal.kernel import limits
from portal.kernel.errors import Denied, NotFound
from portal.kernel.models import Credential
from portal.kernel.principal import Principal, is_workspace_admin
from portal.kernel.reading import asker, checked
from portal.kernel.secrets import verbs, watch

# Changes a minute of one person: nobody types faster, and each may ask a key service.
_CHANGES = 30


class CredentialSerializer(serializers.ModelSerializer[Credential]):
    """A credential without its secret: `hint` is its end, where that gives nothing away; `fingerprint` is keyed."""

    id = serializers.UUIDField(read_only=True)
    reference = serializers.CharField(read_only=True)
    scope = serializers.SerializerMethodField()
    state = serializers.CharField(read_only=True)

    class Meta:
        model = Credential
        fields = [
            "id", "reference", "scope", "name", "host", "state", "health", "hint", "fingerprint", "created_at",
            "replaced_at", "expires_at", "revoked_at", "last_used_at", "exposed_at", "sealed_at", "checked_at",
        ]  # fmt: skip

    def get_scope(self, row: Credential) -> str:
        return "installation" if row.workspace_id is None else "workspace"


class CredentialInput(serializers.Serializer[Any]):
    """`host`: a URL or `host[:port]`; the secret goes nowhere else. `scope` `installation` is the operator's."""

    name = serializers.CharField(max_length=100)
    host = serializers.CharField(max_length=260)
    value = serializers.CharField(max_length=verbs.LONGEST, write_only=True, trim_whitespace=True)
    scope = serializers.ChoiceField(choices=["workspace", "installation"], default="workspace")
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class CredentialChange(serializers.Serializer[Any]):
    """What is left out stays. A new `value` clears the expiry unless one is given; a new `host` needs a `value`."""

    name = serializers.CharField(max_length=100, required=False)
    host = serializers.CharField(max_length=260, required=False)
    value = serializers.CharField(max_length=verbs.LONGEST, required=False, write_only=True)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class CredentialViewSet(GenericViewSet[Credential]):
    """The workspace's credentials for its admins, the installation's for the operator.

    For people, and for keys with the scope `admin`.
    """

    serializer_class = CredentialSerializer
    read_scopes = write_scopes = ("admin",)
    lookup_url_kwarg = "credential"
    queryset = Credential.objects.none()

    def list(self, request: Request) -> Response:
        principal = asker(request)
        if not (is_workspace_admin(principal) or verbs.is_installation_admin(principal)):
            raise Denied("Only an admin of the workspace can do this.", code="not_admin")
        rows = verbs.visible_credentials(principal).order_by("name", "pk")
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(request=CredentialInput, responses={201: CredentialSerializer})
    def create(self, request: Request) -> Response:
        principal = _counted(request)
        data = checked(CredentialInput(data=request.data))
        made = verbs.create(
            principal,
            name=data["name"],
            value=data["value"],
            host=data["host"],
            workspace_id=None if data["scope"] == "installation" else principal.workspace_id,
            expires_at=data["expires_at"],
        )
        return Response(self.get_serializer(made).data, status=status.HTTP_201_CREATED)

    def retrieve(self, request: Request, credential: str) -> Response:
        return Response(self.get_serializer(_found(asker(request), credential)).data)

    @extend_schema(request=CredentialChange, responses=CredentialSerializer)
    def partial_update(self, request: Request, credential: str) -> Response:
        principal = _counted(request)
        row = _found(principal, credential)
        data = checked(CredentialChange(data=request.data))
        kept = None if "value" in data else row.expires_at
        changed = verbs.change(
            principal,
            row,
            name=data.get("name"),
            value=data.get("value", ""),
            host=data.get("host", ""),
            expires_at=data.get("expires_at", kept),
        )
        return Response(self.get_serializer(changed).data)

    def destroy(self, request: Request, credential: str) -> Response:
        """Revoke, and destroy what was sealed."""
        principal = _counted(request)
        verbs.revoke(principal, _found(principal, credential))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses=CredentialSerializer)
    def reseal(self, request: Request, credential: str) -> Response:
        """Seal the same secret anew, under a fresh data key and today's master key."""
        principal = _counted(request)
        return Response(self.get_serializer(verbs.reseal(principal, _found(principal, credential))).data)

    @extend_schema(request=None, responses=CredentialSerializer)
    def check(self, request: Request, credential: str) -> Response:
        """See whether it can still be opened: `health` in the answer."""
        principal = _counted(request)
        row = _found(principal, credential)
        watch.check_health(Credential.objects.filter(pk=row.pk))
        return Response(self.get_serializer(_found(principal, credential)).data)

    @extend_schema(request=None, responses=CredentialSerializer)
    def expose(self, request: Request, credential: str) -> Response:
        """Note that strangers may know the value, until another one is given."""
        principal = _counted(request)
        verbs.mark_exposed(principal, _found(principal, credential))
        return Response(self.get_serializer(_found(principal, credential)).data)


def _found(principal: Principal, name: str) -> Credential:
    try:
        row = verbs.visible_credentials(principal).filter(pk=UUID(name)).first()
    except ValueError:
        row = None
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    return row


def _counted(request: Request) -> Principal:
    principal = asker(request)
    limits.hit("credential", str(principal.user_id), _CHANGES)
    return principal
