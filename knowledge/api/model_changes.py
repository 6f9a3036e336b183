"""The embedding model of a base, and the way to another one."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import model_changes
from knowledge.access import access_base
from knowledge.models import ModelChange, Role
from knowledge.quality import gate
from portal.kernel.errors import NotFound, sentence_of
from portal.kernel.reading import asker, checked


class ModelChangeSerializer(serializers.ModelSerializer[ModelChange]):
    """How far a change is: `done` of `total` chunks have their new vector. `switched_at`: searches use it since then.

    `waiting` is the code of a model that is away; the change goes on by itself when it is back.
    """

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    before = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    after = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)
    reason = serializers.SerializerMethodField()

    class Meta:
        model = ModelChange
        fields = [
            "id", "base", "before", "after", "status", "cancelling", "waiting", "done", "total", "switched_at",
            "error_code", "reason", "created_at", "finished_at",
        ]  # fmt: skip

    def get_reason(self, change: ModelChange) -> str:
        return sentence_of(change.error_message, change.error_params)


class ModelChangeInput(serializers.Serializer[Any]):
    """`embedding` is the uid of an endpoint. `confirmed`: yes, texts of this sensitive base may go to its server."""

    embedding = serializers.CharField(max_length=16)
    confirmed = serializers.BooleanField(required=False, default=False)


class ModelChangeView(APIView):
    """The newest change of a base's embedding model; POST starts one, DELETE stops the one under way."""

    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)

    @extend_schema(responses=ModelChangeSerializer)
    def get(self, request: Request, base: str) -> Response:
        change = model_changes.last(access_base(asker(request), base, Role.OWNER))
        if change is None:
            raise NotFound("The model of this base was never changed.")
        return Response(ModelChangeSerializer(change).data)

    @extend_schema(request=ModelChangeInput, responses={202: ModelChangeSerializer})
    def post(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        data = checked(ModelChangeInput(data=request.data))
        outcome = gate.change_model(asker(request), row, data["embedding"], confirmed=data["confirmed"])
        if outcome.state != "saved" and outcome.run is not None:
            return Response({"state": outcome.state, "run": outcome.run.uid}, status=status.HTTP_202_ACCEPTED)
        return Response(ModelChangeSerializer(model_changes.last(row)).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses={202: ModelChangeSerializer})
    def delete(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        change = model_changes.current(row)
        if change is None:
            raise NotFound("The model of this base is not being changed.")
        model_changes.cancel(asker(request), change)
        return Response(ModelChangeSerializer(model_changes.last(row)).data, status=status.HTTP_202_ACCEPTED)
