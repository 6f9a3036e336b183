"""JSON shapes of passages that are changed by hand, of previews and of reviews."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge.chunks.history import leaves_of
from knowledge.chunks.verbs import MOST_CHARS
from knowledge.models import Chunk, ChunkVersion


class LeafSerializer(serializers.ModelSerializer[Chunk]):
    """A leaf: what searches match."""

    class Meta:
        model = Chunk
        fields = ["id", "ordinal", "text", "prefix", "start", "end", "token_count", "enabled"]


class PassageSerializer(serializers.ModelSerializer[Chunk]):
    """A passage with its leaves. `version` goes back with every change; `removed` ones are history only."""

    revision = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    document = serializers.CharField(source="revision.document.uid", read_only=True)
    removed = serializers.SerializerMethodField()
    leaves = serializers.SerializerMethodField()

    class Meta:
        model = Chunk
        fields = [
            "id", "revision", "document", "ordinal", "version", "enabled", "removed", "text", "prefix", "heading_path",
            "page", "sheet", "row_first", "row_last", "slide", "start", "end", "token_count", "sha256", "leaves",
        ]  # fmt: skip

    def get_removed(self, chunk: Chunk) -> bool:
        return chunk.level == Chunk.Level.GONE

    @extend_schema_field(LeafSerializer(many=True))
    def get_leaves(self, chunk: Chunk) -> Any:
        return LeafSerializer(leaves_of(chunk), many=True).data


class VersionSerializer(serializers.ModelSerializer[ChunkVersion]):
    """One version of a passage: who made it, when, by which change, and what it said."""

    edited_by = serializers.SerializerMethodField()

    class Meta:
        model = ChunkVersion
        fields = ["number", "verb", "change", "edited_by", "at", "text", "sha256", "enabled", "gone"]

    def get_edited_by(self, version: ChunkVersion) -> str | None:
        return str(version.edited_by) if version.edited_by else None


class VersionInput(serializers.Serializer[Any]):
    """The version of the passage that the caller has seen."""

    version = serializers.IntegerField(min_value=1)


class ChunkChange(VersionInput):
    """What of a passage or leaf can be changed; fields left out stay. `version` is the passage's."""

    text = serializers.CharField(required=False, max_length=MOST_CHARS, trim_whitespace=False)
    enabled = serializers.BooleanField(required=False)


class CutInput(VersionInput):
    """Where the second passage begins: characters (code points) of the text, counted from 0."""

    position = serializers.IntegerField(min_value=0, max_value=MOST_CHARS)


class MergeInput(VersionInput):
    """The version of the next passage too, where the caller has seen it."""

    next_version = serializers.IntegerField(min_value=1, required=False, allow_null=True, default=None)


class RestoreInput(VersionInput):
    """Which version to bring back."""

    to = serializers.IntegerField(min_value=1)


class PassageInput(serializers.Serializer[Any]):
    """A passage written by hand; `after` is the id of the passage before it, null for the beginning."""

    text = serializers.CharField(max_length=MOST_CHARS, trim_whitespace=False)
    after = serializers.IntegerField(required=False, allow_null=True, default=None)


class UndoInput(serializers.Serializer[Any]):
    """The change to take back."""

    change = serializers.CharField(max_length=16)


class ChangeOutput(serializers.Serializer[Any]):
    """What was done: the id that an undo names (null when nothing had to change) and the passages as they are now."""

    change = serializers.CharField(allow_null=True)
    passages = PassageSerializer(many=True)


class ByHandOutput(serializers.Serializer[Any]):
    """A change made by hand; `ordinal` counts from 0, null for a passage that was removed."""

    kind = serializers.ChoiceField(choices=["edited", "merged", "cut", "added", "removed", "excluded"])
    chunk = serializers.IntegerField()
    ordinal = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()


class PreviewInput(serializers.Serializer[Any]):
    """Settings of the splitting to try (those left out as the revision has them), and which part to show."""

    splitting = serializers.DictField(required=False, default=dict)
    first = serializers.IntegerField(min_value=0, required=False, default=0)
    limit = serializers.IntegerField(min_value=1, max_value=100, required=False, default=20)


class PreviewLeaf(serializers.Serializer[Any]):
    """A leaf as it would be stored; `searched` is what words and vectors are made of."""

    text = serializers.CharField()
    searched = serializers.CharField()
    token_count = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()


class PreviewPassage(serializers.Serializer[Any]):
    """A passage as it would be stored."""

    ordinal = serializers.IntegerField()
    text = serializers.CharField()
    heading_path = serializers.ListField(child=serializers.CharField())
    page = serializers.IntegerField(allow_null=True)
    sheet = serializers.CharField(allow_null=True)
    slide = serializers.IntegerField(allow_null=True)
    token_count = serializers.IntegerField()
    leaves = PreviewLeaf(many=True)


class FiguresOutput(serializers.Serializer[Any]):
    """Counts; `longest` and `shortest` are [passage counted from 0, tokens of its leaf]."""

    passages = serializers.IntegerField()
    leaves = serializers.IntegerField()
    tokens = serializers.IntegerField()
    average = serializers.IntegerField()
    longest = serializers.ListField(child=serializers.IntegerField())
    shortest = serializers.ListField(child=serializers.IntegerField())


class RemovedOutput(serializers.Serializer[Any]):
    """What one clean-up rule takes out."""

    rule = serializers.CharField()
    count = serializers.IntegerField()
    examples = serializers.ListField(child=serializers.CharField())


class PreviewOutput(serializers.Serializer[Any]):
    """A split that was not stored. `warnings` are the parser's, `left_out` stands in no chunk."""

    figures = FiguresOutput(allow_null=True)
    passages = PreviewPassage(many=True)
    warnings = serializers.ListField(child=serializers.CharField())
    removed = RemovedOutput(many=True)
    left_out = serializers.ListField(child=serializers.CharField())
    whole = serializers.BooleanField()
    kept = ByHandOutput(many=True)
    lost = ByHandOutput(many=True)


class ResplitInput(serializers.Serializer[Any]):
    """Settings of the splitting to change; `discard_edits` accepts that changes by hand are lost."""

    splitting = serializers.DictField()
    discard_edits = serializers.BooleanField(required=False, default=False)


class ReindexInput(serializers.Serializer[Any]):
    """How to read the document again; without anything: as it was chosen for it, else as the base says."""

    splitting = serializers.DictField(required=False, allow_null=True, default=None)
    as_base = serializers.BooleanField(required=False, default=False)
    review = serializers.BooleanField(required=False, default=False)
    discard_edits = serializers.BooleanField(required=False, default=False)


class ReviewInput(serializers.Serializer[Any]):
    """One decision about several waiting revisions (ids); for `resplit` with the settings to change."""

    revisions = serializers.ListField(child=serializers.CharField(), min_length=1, max_length=200)
    action = serializers.ChoiceField(choices=["confirm", "discard", "resplit"])
    splitting = serializers.DictField(required=False, default=dict)
    discard_edits = serializers.BooleanField(required=False, default=False)


class ReviewOutcome(serializers.Serializer[Any]):
    """What became of one of them; `code` and `reason` are null when it was done."""

    revision = serializers.CharField()
    code = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_null=True)
