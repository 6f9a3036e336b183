"""Batches over documents, and the vocabulary of tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import background, batches, tags
from knowledge.access import access_base, access_batch, visible_batches
from knowledge.batches import Selection
from knowledge.models import Batch, BatchItem, Role
from portal.kernel.errors import sentence_of
from portal.kernel.reading import asker, checked


class BatchItemSerializer(serializers.ModelSerializer[BatchItem]):
    """What became of one document."""

    document = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True, allow_null=True)
    reason = serializers.SerializerMethodField()

    class Meta:
        model = BatchItem
        fields = ["document", "name", "outcome", "code", "reason"]

    def get_reason(self, item: BatchItem) -> str:
        return sentence_of(item.message, item.params)


class BatchOutcomes(serializers.Serializer[Any]):
    """How many documents; the four add up to the batch's total."""

    waiting = serializers.IntegerField()
    done = serializers.IntegerField()
    skipped = serializers.IntegerField()
    failed = serializers.IntegerField()


class BatchSerializer(serializers.ModelSerializer[Batch]):
    """One verb on many documents, and how far it is."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    undoes = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True, allow_null=True)
    outcomes = serializers.SerializerMethodField()
    may_undo = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)

    class Meta:
        model = Batch
        fields = [
            "id", "base", "verb", "params", "selection", "status", "cancelling", "total", "outcomes", "may_undo",
            "undoes", "error_code", "reason", "created_at", "finished_at",
        ]  # fmt: skip

    @extend_schema_field(BatchOutcomes)
    def get_outcomes(self, batch: Batch) -> dict[str, int]:
        return asdict(self._standing(batch).outcomes)

    def get_may_undo(self, batch: Batch) -> bool:
        return self._standing(batch).may_undo

    _standings: Mapping[int, batches.Standing] = MappingProxyType({})

    def _standing(self, batch: Batch) -> batches.Standing:
        """Counted at once for all batches of a list."""
        if batch.pk not in self._standings:
            several = isinstance(self.parent, serializers.ListSerializer)
            listed = cast(list[Batch], self.parent.instance) if several else [batch]
            self._standings = batches.standings(listed)
        return self._standings[batch.pk]

    def get_reason(self, batch: Batch) -> str:
        return sentence_of(batch.error_message, batch.error_params)


class BatchInput(serializers.Serializer[Any]):
    """Either `ids`, or `filter` (as in the address of the list, like `state=failed&tag=hr`) with `expected`.

    `expected` is how many documents the caller knows to match: when there are more by now, nothing is done (409).
    `params` by verb: tag, untag {tags}; move {base, name_taken}; folder {folder}; review {date}; owner {owner};
    resplit {splitting, discard_edits}; reindex {discard_edits}.
    """

    verb = serializers.ChoiceField(choices=sorted(batches.VERBS))
    ids = serializers.ListField(child=serializers.CharField(max_length=16), required=False, max_length=10_000)
    filter = serializers.CharField(required=False, allow_blank=True, max_length=4_000)
    exclude = serializers.ListField(
        child=serializers.CharField(max_length=16), required=False, default=list, max_length=1_000
    )
    expected = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=0)
    params = serializers.DictField(required=False, default=dict)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("ids" in attrs) == ("filter" in attrs):
            raise serializers.ValidationError("Give either ids, or a filter with the number expected.")
        return attrs


class BatchesView(GenericViewSet[Batch]):
    """The batches of a base; POST starts one."""

    serializer_class = BatchSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = Batch.objects.none()
    filter_backends: list[Any] = []

    def list(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        rows = visible_batches(principal).filter(base=row).select_related("base", "undoes").order_by("-id")
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(request=BatchInput, responses={202: BatchSerializer})
    def create(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(BatchInput(data=request.data))
        scope = "ids" if "ids" in data else "bin" if data["verb"] in {"restore", "purge"} else "all"
        chosen = Selection(
            scope=scope,  # type: ignore[arg-type]
            ids=tuple(data.get("ids", ())),
            filter=data.get("filter", ""),
            exclude=tuple(data["exclude"]),
            expected=data["expected"],
        )
        batch = batches.begin(batches.start(principal, row, data["verb"], chosen, data["params"]))
        return Response(self.get_serializer(batch).data, status=status.HTTP_202_ACCEPTED)


class BatchView(GenericViewSet[Batch]):
    """One batch."""

    serializer_class = BatchSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = Batch.objects.none()
    filter_backends: list[Any] = []

    def retrieve(self, request: Request, batch: str) -> Response:
        return Response(self.get_serializer(access_batch(asker(request), batch)).data)

    @extend_schema(
        parameters=[OpenApiParameter("outcome", enum=BatchItem.Outcome.values)],
        responses=BatchItemSerializer(many=True),
    )
    def items(self, request: Request, batch: str) -> Response:
        """What became of each document."""
        rows: QuerySet[Any] = access_batch(asker(request), batch).items.select_related("document").order_by("pk")
        outcome = request.query_params.get("outcome", "")
        if outcome in BatchItem.Outcome.values:
            rows = rows.filter(outcome=outcome)
        return self.get_paginated_response(BatchItemSerializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(request=None)
    def cancel(self, request: Request, batch: str) -> Response:
        """Stop it; what is done stays done."""
        row = access_batch(asker(request), batch)
        background.cancel(asker(request), row)
        return self.retrieve(request, batch)

    @extend_schema(request=None, responses={202: BatchSerializer})
    def undo(self, request: Request, batch: str) -> Response:
        """Start the reverse of what it did."""
        made = batches.begin(batches.undo(asker(request), access_batch(asker(request), batch)))
        return Response(self.get_serializer(made).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=None, responses={202: BatchSerializer})
    def again(self, request: Request, batch: str) -> Response:
        """Start it once more for the documents that failed."""
        made = batches.begin(batches.again(asker(request), access_batch(asker(request), batch)))
        return Response(self.get_serializer(made).data, status=status.HTTP_202_ACCEPTED)


class TagOutput(serializers.Serializer[Any]):
    """A word of the vocabulary, with how many live documents have it."""

    name = serializers.CharField()
    documents = serializers.IntegerField()


class TagInput(serializers.Serializer[Any]):
    """`name` alone adds a tag; with `tag` it renames that one; `tag` and `into` merge the first into the second."""

    name = serializers.CharField(max_length=60, required=False)
    tag = serializers.CharField(max_length=60, required=False)
    into = serializers.CharField(max_length=60, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("name" in attrs) == ("into" in attrs) or ("into" in attrs and "tag" not in attrs):
            raise serializers.ValidationError("Give name, or tag and name, or tag and into.")
        return attrs


class TagsView(APIView):
    """The vocabulary of a base."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=TagOutput(many=True))
    def get(self, request: Request, base: str) -> Response:
        """All tags by name, unused ones too."""
        row = access_base(asker(request), base)
        return Response(TagOutput(tags.vocabulary(row), many=True).data)

    @extend_schema(request=TagInput, responses=TagOutput(many=True))
    def post(self, request: Request, base: str) -> Response:
        """Add, rename or merge."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(TagInput(data=request.data))
        if "into" in data:
            tags.merge(principal, row, tags.find(row, data["tag"]), tags.find(row, data["into"]))
        elif "tag" in data:
            tags.rename(principal, row, tags.find(row, data["tag"]), data["name"])
        else:
            tags.create(principal, row, data["name"])
        return Response(TagOutput(tags.vocabulary(row), many=True).data)

    @extend_schema(parameters=[OpenApiParameter("tag", required=True)], request=None, responses={204: None})
    def delete(self, request: Request, base: str) -> Response:
        """Take the tag off all documents and out of the vocabulary."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        tags.delete(principal, row, tags.find(row, request.query_params.get("tag", "")))
        return Response(status=status.HTTP_204_NO_CONTENT)
