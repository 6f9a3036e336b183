"""JSON shapes of uploads in pieces, pasted texts, question sheets and web sources."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge.api.serializers import DocumentSerializer, RevisionSerializer
from knowledge.models import Source, SourcePage, SourceRun, Upload
from portal.kernel.errors import sentence_of

SAME_NAMES = ["revision", "keep_both", "skip"]


class UploadSerializer(serializers.ModelSerializer[Upload]):
    """An upload in pieces: how far it is, and what became of it. `base` is null for an archive that is imported."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    document = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    archive = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    reason = serializers.SerializerMethodField()

    class Meta:
        model = Upload
        fields = [
            "id", "base", "path", "folder", "fingerprint", "length", "offset", "state", "outcome", "document",
            "archive", "error_code", "reason", "created_at", "expires_at",
        ]  # fmt: skip

    def get_reason(self, upload: Upload) -> str:
        return sentence_of(upload.error_message, upload.error_params)


class TextInput(serializers.Serializer[Any]):
    """A text that becomes a document named by its title; the same title and folder again is a new revision."""

    title = serializers.CharField(max_length=200)
    text = serializers.CharField(trim_whitespace=False)
    format = serializers.ChoiceField(choices=["markdown", "plain"], required=False, default="markdown")
    folder = serializers.CharField(required=False, allow_blank=True, default="", max_length=800)
    same_name = serializers.ChoiceField(choices=SAME_NAMES, required=False, default="revision")
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    metadata = serializers.DictField(required=False, default=dict)


class SheetInput(serializers.Serializer[Any]):
    """A sheet of questions and answers. With `preview` nothing is kept: only what would be imported is told."""

    file = serializers.FileField(allow_empty_file=True)
    name = serializers.CharField(required=False, allow_blank=True, default="")
    folder = serializers.CharField(required=False, allow_blank=True, default="", max_length=800)
    same_name = serializers.ChoiceField(choices=SAME_NAMES, required=False, default="revision")
    preview = serializers.BooleanField(required=False, default=False)


class RowProblemSerializer(serializers.Serializer[Any]):
    """What is wrong with one row of a sheet."""

    sheet = serializers.CharField()
    row = serializers.IntegerField()
    code = serializers.CharField()
    reason = serializers.SerializerMethodField()

    def get_reason(self, problem: Any) -> str:
        return str(problem.sentence())


class PairSerializer(serializers.Serializer[Any]):
    """One question with its answer."""

    sheet = serializers.CharField()
    row = serializers.IntegerField()
    questions = serializers.ListField(child=serializers.CharField())
    answer = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())


class SheetResult(serializers.Serializer[Any]):
    """What a sheet holds and, unless it was a preview, the document that it became."""

    pairs = serializers.IntegerField()
    first = PairSerializer(many=True)
    problems = RowProblemSerializer(many=True)
    document = DocumentSerializer(allow_null=True)
    revision = RevisionSerializer(allow_null=True)


class SourceRunSerializer(serializers.ModelSerializer[SourceRun]):
    """One synchronisation: how many pages came to which end, and why it ended."""

    id = serializers.CharField(source="uid", read_only=True)
    reason = serializers.SerializerMethodField()
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)

    class Meta:
        model = SourceRun
        fields = [
            "id", "number", "trigger", "status", "counts", "size", "cancelling", "error_code", "reason", "queued_at",
            "started_at", "ended_at",
        ]  # fmt: skip

    def get_reason(self, run: SourceRun) -> str:
        return sentence_of(run.error_message, run.error_params)


class SourceSerializer(serializers.ModelSerializer[Source]):
    """A web source with its newest synchronisation."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    last_run = serializers.SerializerMethodField()

    class Meta:
        model = Source
        fields = [
            "id", "base", "name", "kind", "url", "folder", "depth", "page_limit", "limit_mb", "include", "exclude",
            "main_only", "schedule", "gone", "tags", "metadata", "next_run_at", "last_run", "created_at",
        ]  # fmt: skip

    @extend_schema_field(SourceRunSerializer(allow_null=True))
    def get_last_run(self, source: Source) -> Any:
        # A list fetches those of all its sources at once, under this name.
        newest = getattr(source, "newest_runs", None)
        run = next(iter(source.runs.order_by("-number")[:1] if newest is None else newest), None)
        return SourceRunSerializer(run).data if run else None


class SourcePageSerializer(serializers.ModelSerializer[SourcePage]):
    """One page of a source and what is known of it."""

    document = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    reason = serializers.SerializerMethodField()

    class Meta:
        model = SourcePage
        fields = [
            "url", "title", "depth", "state", "last_outcome", "document", "http_status", "error_code", "reason",
            "fetched_at", "changed_at",
        ]  # fmt: skip

    def get_reason(self, page: SourcePage) -> str:
        return sentence_of(page.error_message, page.error_params)


class SourceInput(serializers.Serializer[Any]):
    """What makes a web source."""

    url = serializers.CharField(max_length=2000)
    kind = serializers.ChoiceField(choices=Source.Kind.choices, required=False, default=Source.Kind.PAGE)
    name = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    folder = serializers.CharField(max_length=400, required=False, allow_blank=True, default="")
    depth = serializers.IntegerField(min_value=0, max_value=10, required=False, default=2)
    page_limit = serializers.IntegerField(min_value=1, max_value=10_000, required=False, default=100)
    limit_mb = serializers.IntegerField(min_value=1, max_value=2_000, required=False, default=100)
    include = serializers.ListField(child=serializers.CharField(max_length=300), required=False, default=list)
    exclude = serializers.ListField(child=serializers.CharField(max_length=300), required=False, default=list)
    main_only = serializers.BooleanField(required=False, default=True)
    schedule = serializers.ChoiceField(choices=Source.Schedule.choices, required=False, default=Source.Schedule.OFF)
    gone = serializers.ChoiceField(choices=Source.Gone.choices, required=False, default=Source.Gone.DISABLE)
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    metadata = serializers.DictField(required=False, default=dict)


class SourceChange(serializers.Serializer[Any]):
    """What of a web source can be changed; fields left out stay."""

    name = serializers.CharField(max_length=200, required=False)
    folder = serializers.CharField(max_length=400, required=False, allow_blank=True)
    depth = serializers.IntegerField(min_value=0, max_value=10, required=False)
    page_limit = serializers.IntegerField(min_value=1, max_value=10_000, required=False)
    limit_mb = serializers.IntegerField(min_value=1, max_value=2_000, required=False)
    include = serializers.ListField(child=serializers.CharField(max_length=300), required=False)
    exclude = serializers.ListField(child=serializers.CharField(max_length=300), required=False)
    main_only = serializers.BooleanField(required=False)
    schedule = serializers.ChoiceField(choices=Source.Schedule.choices, required=False)
    gone = serializers.ChoiceField(choices=Source.Gone.choices, required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    metadata = serializers.DictField(required=False)
