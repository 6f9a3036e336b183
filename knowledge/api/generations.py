"""What a chat model makes of a base's passages: what it would cost, starting it, how far it is, stopping it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import generation
from knowledge.access import access_base
from knowledge.models import Generation, Role
from portal.kernel.errors import NotFound, sentence_of
from portal.kernel.reading import asker, checked


class GenerationSerializer(serializers.ModelSerializer[Generation]):
    """A run: `done` of `total` passages; `made` questions or cases; `skipped` passages that nothing was made of.

    `waiting` is the code of a model that is away; the run goes on by itself when it is back.
    """

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    endpoint = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)
    reason = serializers.SerializerMethodField()

    class Meta:
        model = Generation
        fields = [
            "id", "base", "kind", "endpoint", "each", "most", "status", "cancelling", "waiting", "done", "total",
            "made", "skipped", "tokens_in", "tokens_out", "cost", "estimate", "error_code", "reason", "created_at",
            "finished_at",
        ]  # fmt: skip

    def get_reason(self, run: Generation) -> str:
        return sentence_of(run.error_message, run.error_params)


class GenerationInput(serializers.Serializer[Any]):
    """What to make. `dry_run`: only say what it would cost. `again`: also of texts that were worked on before."""

    kind = serializers.ChoiceField(choices=Generation.Kind.choices)
    endpoint = serializers.CharField(max_length=40, required=False, allow_blank=True, default="")
    each = serializers.IntegerField(min_value=1, max_value=10, required=False, default=3)
    most = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False, default=0)
    again = serializers.BooleanField(required=False, default=False)
    dry_run = serializers.BooleanField(required=False, default=False)


class GenerationEstimate(serializers.Serializer[Any]):
    """What a run would take at most; see `docs/api.md`."""

    endpoint = serializers.CharField()
    model = serializers.CharField()
    passages = serializers.IntegerField()
    tokens_in = serializers.IntegerField()
    tokens_out = serializers.IntegerField()
    cost = serializers.CharField()
    currency = serializers.CharField()
    leaves_house = serializers.BooleanField()
    allowed = serializers.BooleanField()
    left = serializers.CharField(allow_null=True)
    unit = serializers.CharField(allow_blank=True)
    enough = serializers.BooleanField()


_KIND = OpenApiParameter("kind", OpenApiTypes.STR, enum=Generation.Kind.values, required=True)


class GenerationView(APIView):
    """The newest run of a kind; POST estimates or starts one, DELETE stops the one under way."""

    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)

    @extend_schema(parameters=[_KIND], responses=GenerationSerializer)
    def get(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        run = generation.last(row, request.query_params.get("kind", ""))
        if run is None:
            raise NotFound("Nothing was generated for this base yet.")
        return Response(GenerationSerializer(run).data)

    @extend_schema(request=GenerationInput, responses={200: GenerationEstimate, 202: GenerationSerializer})
    def post(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.OWNER)
        data = checked(GenerationInput(data=request.data))
        only_ask = data.pop("dry_run")
        wanted = generation.Wanted(**data)
        if only_ask:
            return Response(generation.estimate(principal, row, wanted).as_json())
        run = generation.start(principal, row, wanted)
        return Response(GenerationSerializer(run).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[_KIND], request=None, responses={202: GenerationSerializer})
    def delete(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        run = generation.current(row, request.query_params.get("kind", ""))
        if run is None:
            raise NotFound("Nothing is being generated for this base.")
        generation.cancel(asker(request), run)
        run.refresh_from_db()
        return Response(GenerationSerializer(run).data, status=status.HTTP_202_ACCEPTED)
