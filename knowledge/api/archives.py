"""Exports of bases and imports of their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import archive as verbs
from knowledge import background
from knowledge.access import access_archive, access_base, visible_archives
from knowledge.models import Archive, Role
from portal.kernel.errors import NotFound, sentence_of
from portal.kernel.reading import asker, checked


class ArchiveSerializer(serializers.ModelSerializer[Archive]):
    """An export or import. `base` of an import is empty until it is complete."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)
    content_hash = serializers.SerializerMethodField()
    counts = serializers.SerializerMethodField()

    class Meta:
        model = Archive
        fields = [
            "id", "kind", "base", "status", "cancelling", "done", "total", "options", "file_name", "size",
            "content_hash", "counts", "error_code", "reason", "created_at", "finished_at", "expires_at",
        ]  # fmt: skip

    def get_base(self, archive: Archive) -> str | None:
        return archive.base.uid if archive.base and archive.base.deleted_at is None else None

    def get_reason(self, archive: Archive) -> str:
        return sentence_of(archive.error_message, archive.error_params)

    def get_content_hash(self, archive: Archive) -> str:
        return str(archive.summary.get("content_hash", ""))

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_counts(self, archive: Archive) -> dict[str, int]:
        return dict(archive.summary.get("counts", {}))


class ExportInput(serializers.Serializer[Any]):
    """What an export is to hold."""

    revisions = serializers.ChoiceField(choices=["all", "current"], required=False, default="all")
    vectors = serializers.BooleanField(required=False, default=False)


class ImportInput(serializers.Serializer[Any]):
    """The file of an export, multipart."""

    file = serializers.FileField()
    name = serializers.CharField(max_length=190, required=False, allow_blank=True, default="")
    embedding = serializers.CharField(max_length=16, required=False, allow_blank=True, default="")


class _Archives(GenericViewSet[Archive]):
    serializer_class = ArchiveSerializer
    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)
    queryset = Archive.objects.none()
    filter_backends: list[Any] = []

    def _page(self, rows: Any) -> Response:
        page = self.paginate_queryset(rows.select_related("base").order_by("-id"))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class ExportsView(_Archives):
    """The exports of a base; POST starts one."""

    def list(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        return self._page(visible_archives(asker(request)).filter(base=row, kind=Archive.Kind.EXPORT))

    @extend_schema(request=ExportInput, responses={202: ArchiveSerializer})
    def create(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        data = checked(ExportInput(data=request.data))
        archive = verbs.start_export(asker(request), row, which=data["revisions"], vectors=data["vectors"])
        return Response(self.get_serializer(archive).data, status=status.HTTP_202_ACCEPTED)


class EstimateView(APIView):
    """What an export would hold, and about how large it would be."""

    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)

    @extend_schema(
        parameters=[OpenApiParameter("revisions", str), OpenApiParameter("vectors", bool)],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        data = checked(ExportInput(data=request.query_params))
        return Response(verbs.estimate(row, data["revisions"], vectors=data["vectors"]))


class ImportsView(_Archives):
    """The asker's imports; POST takes the file of an export and makes a new base of it."""

    parser_classes = [MultiPartParser]

    def list(self, request: Request) -> Response:
        return self._page(visible_archives(asker(request)).filter(kind=Archive.Kind.IMPORT))

    @extend_schema(request=ImportInput, responses={202: ArchiveSerializer})
    def create(self, request: Request) -> Response:
        data = checked(ImportInput(data=request.data))
        upload: TemporaryUploadedFile = data["file"]
        archive = verbs.start_import(
            asker(request),
            Path(upload.temporary_file_path()),
            upload.name or "archive.zip",
            name=data["name"],
            embedding=data["embedding"],
        )
        return Response(self.get_serializer(archive).data, status=status.HTTP_202_ACCEPTED)


class ArchiveView(_Archives):
    """One export or import."""

    def retrieve(self, request: Request, archive: str) -> Response:
        return Response(self.get_serializer(access_archive(asker(request), archive)).data)

    @extend_schema(request=None)
    def cancel(self, request: Request, archive: str) -> Response:
        """Stop it; nothing of it stays."""
        row = access_archive(asker(request), archive)
        background.cancel(asker(request), row)
        return self.retrieve(request, archive)

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    def file(self, request: Request, archive: str) -> FileResponse:
        """The file of a finished export, while it is kept."""
        row = access_archive(asker(request), archive)
        if row.kind != Archive.Kind.EXPORT:
            raise NotFound("Not found, or you don't have access.")
        return verbs.download(asker(request), row)

    def destroy(self, request: Request, archive: str) -> Response:
        """Delete the file of an export before its time."""
        verbs.delete(asker(request), access_archive(asker(request), archive))
        return Response(status=status.HTTP_204_NO_CONTENT)
