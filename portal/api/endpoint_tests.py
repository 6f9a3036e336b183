"""Testing the connection to a model: the button of the admin, for programs."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.views import require_admin
from portal.gateway.models import ModelEndpoint
from portal.gateway.probe import probe
from portal.kernel.errors import Denied, NotFound
from portal.kernel.principal import Principal
from portal.kernel.reading import asker


class EndpointTestView(APIView):
    """Asks an endpoint of the workspace for its models and one short answer: some tokens are paid for."""

    write_scopes = ("admin",)

    @extend_schema(
        parameters=[OpenApiParameter("endpoint", str, OpenApiParameter.PATH)],
        request=None,
        responses=inline_serializer(
            "EndpointTest",
            {
                "ok": serializers.BooleanField(),
                "code": serializers.CharField(allow_blank=True),
                "sentence": serializers.CharField(),
                "milliseconds": serializers.IntegerField(),
                "models": serializers.ListField(child=serializers.CharField()),
                "nearest": serializers.ListField(child=serializers.CharField()),
            },
        ),
    )
    def post(self, request: Request, endpoint: str) -> Response:
        """What was found; a model that does not answer is a result too, with its `code`."""
        principal = asker(request)
        require_admin(principal)
        found = probe(principal, _of_the_workspace(principal, endpoint))
        return Response({"ok": found.ok, **asdict(found)})


def _of_the_workspace(principal: Principal, uid: str) -> ModelEndpoint:
    row = ModelEndpoint.objects.filter(uid=uid, workspace_id__in=[principal.workspace_id]).first()
    if row is not None:
        return row
    if ModelEndpoint.objects.filter(uid=uid, workspace=None, enabled=True).exists():
        raise Denied("Shared endpoints are tested by the operator.", code="operator_only")
    raise NotFound("There is no such model endpoint.")
