"""Documents, revisions, chunks and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db.models import QuerySet
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import documents, files, intake, lifecycle
from knowledge.access import (
    access_base,
    access_deleted_document,
    access_document,
    access_revision,
    deleted_documents,
    visible_documents,
    visible_revisions,
)
from knowledge.api import serializers as shapes
from knowledge.api.chunk_shapes import ReindexInput
from knowledge.api.document_filters import DocumentFilter
from knowledge.batches import verbs as batch_verbs
from knowledge.details import Details
from knowledge.models import Chunk, Document, Revision, Role
from portal.kernel.reading import asker, checked


def _listed(rows: QuerySet[Document]) -> QuerySet[Document]:
    return rows.select_related(
        "base", "owner", "active_revision", "active_revision__document", "active_revision__created_by"
    ).prefetch_related("revisions", "revisions__created_by")


class BaseDocumentsView(GenericViewSet[Document]):
    """The documents of one base; POST uploads a file."""

    serializer_class = shapes.DocumentSerializer
    filterset_class = DocumentFilter
    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")
    parser_classes = [MultiPartParser]
    queryset = Document.objects.none()

    def list(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base)
        rows = _listed(visible_documents(principal).filter(base=row))
        page = self.paginate_queryset(self.filter_queryset(rows))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(request=shapes.UploadInput, responses={201: shapes.UploadResult})
    def create(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(shapes.UploadInput(data=request.data))
        upload: TemporaryUploadedFile = data["file"]
        received = intake.receive(
            principal,
            row,
            Path(upload.temporary_file_path()),
            data["path"] or upload.name or "file",
            folder=data["folder"],
            same_name=data["same_name"],
            review=data["review"],
            details=Details.written(data["tags"], data["metadata"]),
        )
        body = {
            "status": received.status,
            "document": shapes.DocumentSerializer(_listed(Document.objects.filter(pk=received.document.pk)).get()).data,
            "revision": shapes.RevisionSerializer(received.revision).data if received.revision else None,
        }
        return Response(body, status=status.HTTP_201_CREATED)


class RecycleBinView(GenericViewSet[Document]):
    """The recycle bin of a base."""

    serializer_class = shapes.DocumentSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = Document.objects.none()

    def list(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        rows = _listed(deleted_documents(principal).filter(base=row)).order_by("-deleted_at")
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(request=None, responses=shapes.DocumentSerializer)
    def restore(self, request: Request, document: str) -> Response:
        row = access_deleted_document(asker(request), document)
        documents.restore(asker(request), row)
        return Response(self.get_serializer(_listed(Document.objects.filter(pk=row.pk)).get()).data)

    def purge(self, request: Request, document: str) -> Response:
        documents.purge(asker(request), access_deleted_document(asker(request), document))
        return Response(status=status.HTTP_204_NO_CONTENT)


class DocumentViewSet(GenericViewSet[Document]):
    """One document."""

    serializer_class = shapes.DocumentSerializer
    lookup_url_kwarg = "document"
    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")
    queryset = Document.objects.none()

    def _shown(self, document: Document) -> Response:
        return Response(self.get_serializer(_listed(Document.objects.filter(pk=document.pk)).get()).data)

    def retrieve(self, request: Request, document: str) -> Response:
        return self._shown(access_document(asker(request), document))

    @extend_schema(request=shapes.DocumentChange)
    def partial_update(self, request: Request, document: str) -> Response:
        principal = asker(request)
        row = access_document(principal, document, Role.EDITOR)
        data = checked(shapes.DocumentChange(data=request.data))
        enabled = data.pop("enabled", None)
        if data:
            clear = "review_date" in data and data["review_date"] is None
            nobody = "owner" in data and not data["owner"]
            owner = data.pop("owner", None)
            person = batch_verbs.person(principal, owner) if owner else None
            documents.describe(principal, row, clear_review_date=clear, owner=person, clear_owner=nobody, **data)
        if enabled is not None:
            documents.set_enabled(principal, row, enabled)
        return self._shown(row)

    def destroy(self, request: Request, document: str) -> Response:
        """Into the recycle bin."""
        documents.delete(asker(request), access_document(asker(request), document, Role.EDITOR))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=ReindexInput, responses={201: shapes.RevisionSerializer})
    @action(detail=True, methods=["post"])
    def reindex(self, request: Request, document: str) -> Response:
        """Read the newest bytes again: as chosen for this document, else with the base's settings of today."""
        row = access_document(asker(request), document, Role.EDITOR)
        revision = lifecycle.reindex(asker(request), row, **checked(ReindexInput(data=request.data)))
        return Response(shapes.RevisionSerializer(revision).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=shapes.RevisionSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None)
    def revisions(self, request: Request, document: str) -> Response:
        row = access_document(asker(request), document)
        rows = row.revisions.select_related("document", "created_by").order_by("-number")
        return Response(shapes.RevisionSerializer(rows, many=True).data)


class RevisionViewSet(GenericViewSet[Revision]):
    """One revision: its state, its chunks, its file, and what can be done with it."""

    serializer_class = shapes.RevisionSerializer
    lookup_url_kwarg = "revision"
    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")
    queryset = Revision.objects.none()

    def _shown(self, revision: Revision) -> Response:
        revision.refresh_from_db()
        return Response(self.get_serializer(revision).data)

    def retrieve(self, request: Request, revision: str) -> Response:
        return self._shown(access_revision(asker(request), revision))

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, revision: str) -> Response:
        row = access_revision(asker(request), revision, Role.EDITOR)
        lifecycle.retry(asker(request), row)
        return self._shown(row)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, revision: str) -> Response:
        row = access_revision(asker(request), revision, Role.EDITOR)
        lifecycle.cancel(asker(request), row)
        return self._shown(row)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, revision: str) -> Response:
        """Let a reviewed revision go on to vectorizing."""
        row = access_revision(asker(request), revision, Role.EDITOR)
        lifecycle.confirm(asker(request), row)
        return self._shown(row)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def activate(self, request: Request, revision: str) -> Response:
        """Roll the document back (or forward) to this revision."""
        row = access_revision(asker(request), revision, Role.EDITOR)
        lifecycle.activate(asker(request), row.document, row)
        return self._shown(row)

    @extend_schema(
        parameters=[OpenApiParameter("level", enum=[Chunk.Level.PASSAGE, Chunk.Level.LEAF], default="passage")],
        responses=shapes.ChunkSerializer(many=True),
    )
    @action(detail=True, methods=["get"])
    def chunks(self, request: Request, revision: str) -> Response:
        """Its passages, or its leaves."""
        row = access_revision(asker(request), revision)
        level = request.query_params.get("level", Chunk.Level.PASSAGE)
        rows = Chunk.objects.filter(revision=row, level=level).defer("lexemes")
        # Leaves of a passage that was changed by hand are numbered behind all others: their passages tell the order.
        rows = rows.order_by("parent__ordinal", "ordinal") if level == Chunk.Level.LEAF else rows.order_by("ordinal")
        page: Any = self.paginate_queryset(cast(Any, rows))
        return self.get_paginated_response(shapes.ChunkSerializer(page, many=True).data)

    @extend_schema(responses=shapes.AttemptSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None)
    def history(self, request: Request, revision: str) -> Response:
        """Who worked on it, when, how long, and how it ended."""
        row = access_revision(asker(request), revision)
        return Response(shapes.AttemptSerializer(row.history.all(), many=True).data)

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True, methods=["get"])
    def file(self, request: Request, revision: str) -> FileResponse:
        """The original file, as an attachment."""
        return files.download(access_revision(asker(request), revision))


class TasksView(GenericViewSet[Revision]):
    """The work on documents that the asker may see, newest first: `?state=failed`."""

    serializer_class = shapes.RevisionSerializer
    read_scopes = ("kb:read",)
    queryset = Revision.objects.none()

    @extend_schema(parameters=[OpenApiParameter("state", enum=Revision.Status.values)])
    def list(self, request: Request) -> Response:
        rows = visible_revisions(asker(request)).select_related("document", "created_by").order_by("-queued_at", "-id")
        if state := request.query_params.get("state"):
            rows = rows.filter(status=state)
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)


class ImageView(APIView):
    """A picture inside a document, for whoever may see the document."""

    read_scopes = ("kb:read", "chat")

    @extend_schema(
        responses={(200, "image/*"): OpenApiTypes.BINARY},
        parameters=[OpenApiParameter("size", enum=["small"], description="Its thumbnail, where it has one.")],
    )
    def get(self, request: Request, revision: str, key: str, **kwargs: Any) -> FileResponse:
        small = request.query_params.get("size") == "small"
        return files.image(access_revision(asker(request), revision), key, small=small)
