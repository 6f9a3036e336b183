"""Answers that are used again, for admins of the workspace: how often, and emptying what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.api.views import require_admin
from portal.gateway.reuse import metrics, purging
from portal.gateway.reuse.store import switched_on
from portal.kernel.reading import asker

_DAYS = 14


class KeptAnswersView(APIView):
    """`days` counts questions that were looked up: `hit`, `miss`, `refused` (too different to share) and `away`."""

    read_scopes = write_scopes = ("admin",)

    @extend_schema(
        responses=inline_serializer("KeptAnswers", {"on": serializers.BooleanField(), "days": serializers.DictField()})
    )
    def get(self, request: Request) -> Response:
        principal = asker(request)
        require_admin(principal)
        today = timezone.localdate()
        found = metrics.by_day([today - timedelta(days=back) for back in range(_DAYS)], principal.workspace_id)
        days: dict[str, Any] = {day.isoformat(): counts for day, counts in found.items()}
        return Response({"on": switched_on(), "days": days})

    @extend_schema(responses=inline_serializer("PurgedAnswers", {"deleted": serializers.IntegerField()}))
    def delete(self, request: Request) -> Response:
        """Forget every kept answer of the workspace."""
        return Response({"deleted": purging.purge(asker(request))})
