"""Passages that are changed by hand, previews of a split, and reviews."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import lifecycle
from knowledge.access import access_base, access_chunk, access_document, access_revision
from knowledge.api import chunk_shapes as shapes
from knowledge.api.serializers import RevisionSerializer
from knowledge.chunks import history, reviewing, verbs
from knowledge.chunks.losses import changes
from knowledge.chunks.preview import Preview, as_searched, preview
from knowledge.models import Chunk, Revision, Role
from portal.kernel.errors import Conflict, NotFound
from portal.kernel.principal import Principal
from portal.kernel.reading import asker, checked


def _chunk(principal: Principal, raw: str, at_least: Role = Role.VIEWER) -> Chunk:
    # A number that no column holds names nothing.
    if not raw.isdecimal() or len(raw) > 18:
        raise NotFound("Not found, or you don't have access.")
    return access_chunk(principal, int(raw), at_least)


def _passage(principal: Principal, raw: str) -> Chunk:
    row = _chunk(principal, raw, Role.EDITOR)
    if row.level == Chunk.Level.LEAF:
        raise Conflict("This is a chunk of a passage; only the passage can do this.", code="not_a_passage")
    return row


def _done(change: verbs.Change | None, revision: Revision, besides: Chunk | None = None) -> Response:
    """The change and the passages that it touched, as they are now."""
    ids = list(change.chunks) if change else [besides.parent_id or besides.pk] if besides else []
    rows = Chunk.objects.filter(pk__in=ids).defer("lexemes").select_related("revision", "revision__document")
    ordered = sorted(rows, key=lambda row: ids.index(row.pk))
    body = {
        "change": change.uid if change else None,
        "passages": shapes.PassageSerializer(ordered, many=True).data,
    }
    return Response(body)


class ChunkViewSet(GenericViewSet[Chunk]):
    """One passage or leaf: read it, change it, look at what it was."""

    serializer_class = shapes.PassageSerializer
    lookup_url_kwarg = "chunk"
    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")
    queryset = Chunk.objects.none()

    def retrieve(self, request: Request, chunk: str) -> Response:
        """The passage (of a leaf: the one that it belongs to)."""
        row = _chunk(asker(request), chunk)
        if row.level == Chunk.Level.LEAF and row.parent_id:
            row = _chunk(asker(request), str(row.parent_id))
        return Response(self.get_serializer(row).data)

    @extend_schema(request=shapes.ChunkChange, responses=shapes.ChangeOutput)
    def partial_update(self, request: Request, chunk: str) -> Response:
        """Another text, or in or out of searches. Of a leaf: the same stretch of its passage changes too."""
        principal = asker(request)
        row = _chunk(principal, chunk, Role.EDITOR)
        data = checked(shapes.ChunkChange(data=request.data))
        change, version = None, data["version"]
        if "text" in data:
            edit = verbs.edit_leaf if row.level == Chunk.Level.LEAF else verbs.edit
            change = edit(principal, row, data["text"], version=version)
            if change is not None and "enabled" in data:
                row = _chunk(principal, str(change.chunks[0]), Role.EDITOR)
                version = row.version
        if "enabled" in data:
            change = verbs.set_enabled(principal, row, data["enabled"], version=version) or change
        return _done(change, row.revision, row)

    @extend_schema(request=shapes.VersionInput, responses=shapes.ChangeOutput)
    def destroy(self, request: Request, chunk: str) -> Response:
        """Take the passage out (`?version=` or a body); its citations still open, and it can be restored."""
        principal = asker(request)
        row = _passage(principal, chunk)
        data = checked(shapes.VersionInput(data=request.data or request.query_params))
        return _done(verbs.remove(principal, row, version=data["version"]), row.revision)

    @extend_schema(request=shapes.CutInput, responses=shapes.ChangeOutput)
    @action(detail=True, methods=["post"])
    def split(self, request: Request, chunk: str) -> Response:
        """Two passages of one."""
        principal = asker(request)
        row = _passage(principal, chunk)
        data = checked(shapes.CutInput(data=request.data))
        return _done(verbs.cut(principal, row, data["position"], version=data["version"]), row.revision)

    @extend_schema(request=shapes.MergeInput, responses=shapes.ChangeOutput)
    @action(detail=True, methods=["post"])
    def merge(self, request: Request, chunk: str) -> Response:
        """One passage of this and the next."""
        principal = asker(request)
        row = _passage(principal, chunk)
        data = checked(shapes.MergeInput(data=request.data))
        change = verbs.merge(principal, row, version=data["version"], next_version=data["next_version"])
        return _done(change, row.revision)

    @extend_schema(request=shapes.RestoreInput, responses=shapes.ChangeOutput)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, chunk: str) -> Response:
        """An earlier version again; a removed passage comes back."""
        principal = asker(request)
        row = _passage(principal, chunk)
        data = checked(shapes.RestoreInput(data=request.data))
        change = verbs.restore(principal, row, data["to"], version=data["version"])
        return _done(change, row.revision, row)

    @extend_schema(responses=shapes.VersionSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None)
    def versions(self, request: Request, chunk: str) -> Response:
        """All versions, oldest first; empty for a passage that nobody changed."""
        row = _chunk(asker(request), chunk)
        return Response(shapes.VersionSerializer(history.versions_of(row), many=True).data)


class RevisionChunksView(APIView):
    """A passage written by hand, in a revision."""

    write_scopes = ("kb:write", "kb:manage")
    read_scopes = ("kb:write", "kb:manage")

    @extend_schema(request=shapes.PassageInput, responses={201: shapes.ChangeOutput})
    def post(self, request: Request, revision: str) -> Response:
        principal = asker(request)
        row = access_revision(principal, revision, Role.EDITOR)
        data = checked(shapes.PassageInput(data=request.data))
        after = None
        if data["after"] is not None:
            after = _passage(principal, str(data["after"]))
            if after.revision_id != row.pk:
                raise NotFound("Not found, or you don't have access.")
        answer = _done(verbs.add(principal, row, data["text"], after=after), row)
        answer.status_code = status.HTTP_201_CREATED
        return answer


class UndoView(APIView):
    """Take one change back."""

    write_scopes = ("kb:write", "kb:manage")
    read_scopes = ("kb:write", "kb:manage")

    @extend_schema(request=shapes.UndoInput, responses=shapes.ChangeOutput)
    def post(self, request: Request, revision: str) -> Response:
        principal = asker(request)
        row = access_revision(principal, revision, Role.EDITOR)
        data = checked(shapes.UndoInput(data=request.data))
        return _done(verbs.undo(principal, row, data["change"]), row)


class PreviewView(APIView):
    """A split that is not stored: counts, chunks, what is left out, what it keeps and loses of changes by hand."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(request=shapes.PreviewInput, responses=shapes.PreviewOutput)
    def post(self, request: Request, revision: str) -> Response:
        row = access_revision(asker(request), revision, Role.EDITOR)
        data = checked(shapes.PreviewInput(data=request.data))
        found = preview(row, data["splitting"])
        return Response(_previewed(row, found, data["first"], data["limit"]))


def _previewed(revision: Revision, found: Preview, first: int, limit: int) -> dict[str, Any]:
    shown = []
    for passage in found.passages[first : first + limit]:
        searched = as_searched(revision, passage)
        leaves = [
            {**_fields(shapes.PreviewLeaf, leaf), "searched": text}
            for leaf, text in zip(passage.leaves, searched, strict=True)
        ]
        shown.append({**_fields(shapes.PreviewPassage, passage), "leaves": leaves})
    return {
        "figures": shapes.FiguresOutput(found.figures).data if found.figures else None,
        "passages": shown,
        "warnings": list(revision.warnings),
        "removed": shapes.RemovedOutput(found.removed, many=True).data,
        "left_out": list(found.left_out),
        "whole": found.whole,
        "kept": shapes.ByHandOutput(found.kept, many=True).data,
        "lost": shapes.ByHandOutput(found.lost, many=True).data,
    }


def _fields(shape: type[Any], value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in shape().fields if name not in ("leaves", "searched")}


class ResplitView(APIView):
    """Split a revision under review again, by other settings."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(request=shapes.ResplitInput, responses=RevisionSerializer)
    def post(self, request: Request, revision: str) -> Response:
        principal = asker(request)
        row = access_revision(principal, revision, Role.EDITOR)
        data = checked(shapes.ResplitInput(data=request.data))
        lifecycle.resplit(principal, row, data["splitting"], discard_edits=data["discard_edits"])
        row.refresh_from_db()
        return Response(RevisionSerializer(row).data)


class ReviewView(APIView):
    """The revisions of a base that wait for a review, and one decision about several of them."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=RevisionSerializer(many=True))
    def get(self, request: Request, base: str) -> Response:
        principal = asker(request)
        rows = reviewing.waiting(principal, access_base(principal, base))[:200]
        return Response(RevisionSerializer(rows, many=True).data)

    @extend_schema(request=shapes.ReviewInput, responses=shapes.ReviewOutcome(many=True))
    def post(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(shapes.ReviewInput(data=request.data))
        outcomes = reviewing.decide(
            principal,
            row,
            data["revisions"],
            data["action"],
            data["splitting"],
            discard_edits=data["discard_edits"],
        )
        return Response(
            [
                {
                    "revision": outcome.uid,
                    "code": outcome.error.code if outcome.error else None,
                    "reason": outcome.error.sentence() if outcome.error else None,
                }
                for outcome in outcomes
            ]
        )


class EditsView(APIView):
    """Changes by hand in the current version of a document; a preview says which of them a new split keeps."""

    read_scopes = ("kb:read",)

    @extend_schema(responses=shapes.ByHandOutput(many=True))
    def get(self, request: Request, document: str) -> Response:
        row = access_document(asker(request), document)
        return Response(shapes.ByHandOutput(changes(row.active_revision), many=True).data)
