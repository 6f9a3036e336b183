"""JSON shapes of the knowledge API. Ids are opaque uids; errors are problem+json with stable codes."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge import metadata
from knowledge.models import Attempt, Chunk, Document, Grant, KnowledgeBase, Revision, Role
from knowledge.retrieval.contract import MODES, RERANKS
from portal.kernel.errors import sentence_of


class BaseSerializer(serializers.ModelSerializer[KnowledgeBase]):
    """A knowledge base, with the asker's own role on it."""

    id = serializers.CharField(source="uid", read_only=True)
    role = serializers.CharField(source="my_role", read_only=True)
    documents = serializers.IntegerField(source="document_count", read_only=True)
    embedding = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    settings = serializers.JSONField(source="config", read_only=True)
    settings_version = serializers.IntegerField(source="config_version", read_only=True)

    class Meta:
        model = KnowledgeBase
        fields = [
            "id", "name", "description", "sensitive", "role", "documents", "embedding", "settings",
            "settings_version", "stamp", "created_at",
        ]  # fmt: skip
        read_only_fields = ["stamp", "created_at"]


class BaseInput(serializers.Serializer[Any]):
    """What makes a base."""

    name = serializers.CharField(max_length=200)
    description = serializers.CharField(required=False, allow_blank=True, default="")
    sensitive = serializers.BooleanField(required=False, default=False)
    embedding = serializers.CharField(required=False, allow_blank=True, default="")


class BaseChange(serializers.Serializer[Any]):
    """What of a base can be changed; fields left out stay."""

    name = serializers.CharField(max_length=200, required=False)
    description = serializers.CharField(required=False, allow_blank=True)
    sensitive = serializers.BooleanField(required=False)


class SectionInput(serializers.Serializer[Any]):
    """One section of a base's settings, whole. `version` guards against overwriting somebody else's change."""

    values = serializers.JSONField()
    version = serializers.IntegerField(required=False, allow_null=True, default=None)


class ReasonInput(serializers.Serializer[Any]):
    """Why."""

    reason = serializers.CharField(max_length=500)


class GrantSerializer(serializers.ModelSerializer[Grant]):
    """A role on a base for a person or a department."""

    user = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    department = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    name = serializers.SerializerMethodField()

    class Meta:
        model = Grant
        fields = ["id", "user", "department", "channel", "name", "role", "reason", "expires_at", "created_at"]

    def get_name(self, grant: Grant) -> str:
        return str(grant.user or grant.department or grant.channel)


class GrantInput(serializers.Serializer[Any]):
    """Exactly one of `user` and `department` (uids)."""

    user = serializers.CharField(required=False, allow_null=True, default=None)
    department = serializers.CharField(required=False, allow_null=True, default=None)
    role = serializers.ChoiceField(choices=Role.choices)


class RevisionSerializer(serializers.ModelSerializer[Revision]):
    """One set of bytes of a document, and how far the work on it is."""

    id = serializers.CharField(source="uid", read_only=True)
    document = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    reason = serializers.SerializerMethodField()
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)
    created_by = serializers.SerializerMethodField()

    class Meta:
        model = Revision
        fields = [
            "id", "document", "number", "file_name", "mime", "size", "sha256", "status", "done", "total", "unit",
            "attempts", "error_code", "reason", "warnings", "page_count", "chunk_count", "token_count", "cancelling",
            "created_by", "queued_at", "started_at", "finished_at",
        ]  # fmt: skip

    def get_reason(self, revision: Revision) -> str:
        return sentence_of(revision.error_message, revision.error_params)

    def get_created_by(self, revision: Revision) -> str | None:
        return str(revision.created_by) if revision.created_by else None


class DocumentSerializer(serializers.ModelSerializer[Document]):
    """A document with the revision that searches find (`active`) and the newest one (`latest`)."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    owner = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True, allow_null=True)
    active = RevisionSerializer(source="active_revision", read_only=True, allow_null=True)
    latest = serializers.SerializerMethodField()

    class Meta:
        model = Document
        fields = [
            "id", "base", "name", "folder", "enabled", "tags", "metadata", "review_date", "owner", "active", "latest",
            "created_at", "updated_at", "deleted_at",
        ]  # fmt: skip

    @extend_schema_field(RevisionSerializer(allow_null=True))
    def get_latest(self, document: Document) -> Any:
        newest = max(document.revisions.all(), key=lambda revision: revision.number, default=None)
        return RevisionSerializer(newest).data if newest else None


class DocumentChange(serializers.Serializer[Any]):
    """What of a document can be changed; fields left out stay."""

    name = serializers.CharField(max_length=400, required=False)
    folder = serializers.CharField(max_length=800, required=False, allow_blank=True)
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False)
    review_date = serializers.DateField(required=False, allow_null=True)
    metadata = serializers.DictField(required=False)
    owner = serializers.CharField(max_length=16, required=False, allow_null=True, allow_blank=True)
    enabled = serializers.BooleanField(required=False)


class UploadInput(serializers.Serializer[Any]):
    """One file, multipart. `path` is its relative path in an uploaded folder."""

    file = serializers.FileField(allow_empty_file=True)
    path = serializers.CharField(required=False, allow_blank=True, default="")
    folder = serializers.CharField(required=False, allow_blank=True, default="")
    same_name = serializers.ChoiceField(choices=["revision", "keep_both", "skip"], required=False, default="revision")
    # Stop after splitting until somebody approves it, whatever the base says.
    review = serializers.BooleanField(required=False, default=False)
    # Repeated, or separated by commas.
    tags = serializers.ListField(child=serializers.CharField(allow_blank=True), required=False, default=list)
    # A JSON object, or lines `key: value`.
    metadata = serializers.CharField(required=False, allow_blank=True, default="", trim_whitespace=False)


class UploadResult(serializers.Serializer[Any]):
    """What became of an uploaded file."""

    status = serializers.ChoiceField(choices=["created", "revision", "reactivated", "skipped"])
    document = DocumentSerializer()
    revision = RevisionSerializer(allow_null=True)


class ChunkSerializer(serializers.ModelSerializer[Chunk]):
    """A passage (what people read) or leaf (what is searched) of a revision."""

    class Meta:
        model = Chunk
        fields = [
            "id", "level", "parent", "ordinal", "text", "prefix", "heading_path", "page", "sheet", "row_first",
            "row_last", "slide", "start", "end", "token_count", "sha256", "enabled", "version",
        ]  # fmt: skip


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    """One claim of a revision by a worker."""

    reason = serializers.SerializerMethodField()

    class Meta:
        model = Attempt
        fields = ["number", "worker", "started_at", "ended_at", "slices", "seconds", "outcome", "code", "reason"]

    def get_reason(self, attempt: Attempt) -> str:
        return sentence_of(attempt.message, attempt.params)


class ConditionInput(serializers.Serializer[Any]):
    """`key` `op` `value`: equal to the value, in a list of values, or a range of numbers or texts (dates)."""

    key = serializers.CharField(max_length=metadata.LONGEST_KEY)
    op = serializers.ChoiceField(choices=metadata.OPERATORS, required=False, default="=")
    value = serializers.JSONField()


class FiltersInput(serializers.Serializer[Any]):
    """Narrowing before the top k is taken."""

    documents = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    types = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    folder = serializers.CharField(required=False, allow_blank=True, default="")
    updated_from = serializers.DateField(required=False, allow_null=True, default=None)
    updated_to = serializers.DateField(required=False, allow_null=True, default=None)
    metadata = ConditionInput(  # type: ignore[call-arg]  # the stubs do not know what many=True takes
        many=True, required=False, default=list, max_length=metadata.MOST_CONDITIONS
    )


class SearchInput(serializers.Serializer[Any]):
    """A question. Fields left out are as the base's settings say."""

    query = serializers.CharField(max_length=10_000, trim_whitespace=False)
    bases = serializers.ListField(child=serializers.CharField(), required=False, default=list, max_length=100)
    mode = serializers.ChoiceField(choices=MODES, required=False, allow_null=True, default=None)
    top_k = serializers.IntegerField(min_value=1, max_value=50, required=False, allow_null=True, default=None)
    threshold = serializers.FloatField(min_value=0, max_value=1, required=False, allow_null=True, default=None)
    weight = serializers.FloatField(min_value=0, max_value=1, required=False, allow_null=True, default=None)
    fusion = serializers.ChoiceField(choices=["convex", "rrf"], required=False, allow_null=True, default=None)
    neighbours = serializers.IntegerField(min_value=0, max_value=3, required=False, allow_null=True, default=None)
    per_document = serializers.IntegerField(min_value=0, max_value=20, required=False, allow_null=True, default=None)
    diversity = serializers.FloatField(min_value=0, max_value=1, required=False, allow_null=True, default=None)
    rerank = serializers.ChoiceField(choices=RERANKS, required=False, allow_null=True, default=None)
    rerank_endpoint = serializers.CharField(max_length=40, required=False, allow_blank=True, default="")
    filters = FiltersInput(required=False)
    trace = serializers.BooleanField(required=False, default=False)


class HitImageOutput(serializers.Serializer[Any]):
    """A picture that goes with a passage. `api` is its address for programs, `url` that for a signed-in browser."""

    key = serializers.CharField()
    alt = serializers.CharField()
    mime = serializers.CharField()
    width = serializers.IntegerField()
    height = serializers.IntegerField()
    page = serializers.IntegerField(allow_null=True)
    url = serializers.CharField()
    thumbnail = serializers.CharField()
    api = serializers.CharField()


class HitOutput(serializers.Serializer[Any]):
    """A passage that answers; see docs/api.md for the scales."""

    rank = serializers.IntegerField()
    score = serializers.FloatField()
    scale = serializers.CharField()
    relevance = serializers.FloatField()
    base = serializers.CharField()
    base_name = serializers.CharField()
    document = serializers.CharField()
    document_name = serializers.CharField()
    revision = serializers.CharField()
    revision_number = serializers.IntegerField()
    chunk = serializers.IntegerField()
    sha256 = serializers.CharField()
    text = serializers.CharField()
    place = serializers.CharField()
    citation = serializers.CharField()
    origin = serializers.CharField(allow_blank=True)
    highlights = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()))
    images = HitImageOutput(many=True)
    recognised = serializers.BooleanField()
    question = serializers.CharField(allow_blank=True)


class SearchOutput(serializers.Serializer[Any]):
    """Hits, best first."""

    query = serializers.CharField()
    mode = serializers.CharField()
    hits = HitOutput(many=True)
    searched = serializers.IntegerField()
    below_threshold = serializers.IntegerField()
    milliseconds = serializers.FloatField()
    warnings = serializers.ListField(child=serializers.DictField())
    corrections = serializers.ListField(child=serializers.DictField())
    meant = serializers.CharField(allow_blank=True)
    trace = serializers.JSONField(required=False)
