"""Where documents come from besides files: pasted text, sheets of questions, pages of the web."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.db.models import Prefetch
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import intake
from knowledge.access import access_base, access_source, visible_sources
from knowledge.api import serializers, source_shapes
from knowledge.details import Details
from knowledge.models import Document, Role, Source, SourcePage, SourceRun
from knowledge.sources import pasted, question_sheets, runs, template_sheet, verbs
from portal.kernel.reading import asker, checked

_WRITE = ("kb:write", "kb:manage")
_FIRST = 20  # pairs that a preview shows


def _received(received: intake.Received) -> dict[str, Any]:
    document = Document.objects.select_related("base", "active_revision").prefetch_related("revisions")
    return {
        "status": received.status,
        "document": serializers.DocumentSerializer(document.get(pk=received.document.pk)).data,
        "revision": serializers.RevisionSerializer(received.revision).data if received.revision else None,
    }


class TextsView(APIView):
    """Texts that become documents."""

    read_scopes = _WRITE
    write_scopes = _WRITE

    @extend_schema(
        operation_id="texts_create", request=source_shapes.TextInput, responses={201: serializers.UploadResult}
    )
    def post(self, request: Request, base: str) -> Response:
        """A title and some text; the same title and folder again is a new revision."""
        row = access_base(asker(request), base, Role.EDITOR)
        data = checked(source_shapes.TextInput(data=request.data))
        kind = data.pop("format")
        details = Details.checked(data.pop("tags"), data.pop("metadata"))
        received = pasted.paste(asker(request), row, kind=kind, details=details, **data)
        return Response(_received(received), status=status.HTTP_201_CREATED)


class QuestionSheetsView(APIView):
    """Sheets of questions and answers that become documents, each row one chunk."""

    read_scopes = _WRITE
    write_scopes = _WRITE
    parser_classes = [MultiPartParser]

    @extend_schema(
        operation_id="question_sheets_create",
        request=source_shapes.SheetInput,
        responses={200: source_shapes.SheetResult, 201: source_shapes.SheetResult},
    )
    def post(self, request: Request, base: str) -> Response:
        """Import a CSV or XLSX file; `preview` only tells what would be imported, and what is wrong with which row."""
        row = access_base(asker(request), base, Role.EDITOR)
        data = checked(source_shapes.SheetInput(data=request.data))
        upload: TemporaryUploadedFile = data["file"]
        name = data["name"] or upload.name or "questions.csv"
        sheet = question_sheets.read_sheet(Path(upload.temporary_file_path()), name)
        body: dict[str, Any] = {
            "pairs": len(sheet.pairs),
            "first": source_shapes.PairSerializer(sheet.pairs[:_FIRST], many=True).data,
            "problems": source_shapes.RowProblemSerializer(sheet.problems, many=True).data,
            "document": None,
            "revision": None,
        }
        if data["preview"]:
            return Response(body)
        received = question_sheets.import_sheet(
            asker(request), row, sheet, name, folder=data["folder"], same_name=data["same_name"]
        )
        return Response({**body, **_received(received)}, status=status.HTTP_201_CREATED)


class QuestionTemplateView(APIView):
    """The empty sheet of questions and answers."""

    read_scopes = ("kb:read",)

    @extend_schema(
        operation_id="question_sheet_template",
        parameters=[OpenApiParameter("type", str, enum=["csv", "xlsx"])],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request) -> HttpResponse:
        """`?type=csv` or `xlsx` (default)."""
        return template_response(request.query_params.get("type", "xlsx"))


def template_response(kind: str) -> HttpResponse:
    """The template as a download; anything but `csv` gives the workbook."""
    data, mime, name = (
        (template_sheet.as_csv(), "text/csv; charset=utf-8", "questions.csv")
        if kind == "csv"
        else (template_sheet.as_workbook(), template_sheet.XLSX, "questions.xlsx")
    )
    return HttpResponse(data, content_type=mime, headers={"Content-Disposition": f'attachment; filename="{name}"'})


class BaseSourcesView(GenericViewSet[Source]):
    """The web sources of a base."""

    serializer_class = source_shapes.SourceSerializer
    read_scopes = _WRITE
    write_scopes = _WRITE
    queryset = Source.objects.none()

    def list(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        newest = Prefetch("runs", SourceRun.objects.order_by("-number")[:1], to_attr="newest_runs")
        rows = visible_sources(asker(request)).filter(base=row).select_related("base").prefetch_related(newest)
        rows = rows.order_by("name", "id")
        return self.get_paginated_response(self.get_serializer(self.paginate_queryset(rows), many=True).data)

    @extend_schema(request=source_shapes.SourceInput, responses={201: source_shapes.SourceSerializer})
    def create(self, request: Request, base: str) -> Response:
        """Make a source; its first synchronisation starts at once."""
        row = access_base(asker(request), base, Role.EDITOR)
        source = verbs.create(asker(request), row, **checked(source_shapes.SourceInput(data=request.data)))
        return Response(self.get_serializer(source).data, status=status.HTTP_201_CREATED)


class SourceViewSet(GenericViewSet[Source]):
    """One web source."""

    serializer_class = source_shapes.SourceSerializer
    lookup_url_kwarg = "source"
    read_scopes = _WRITE
    write_scopes = _WRITE
    queryset = Source.objects.none()

    def retrieve(self, request: Request, source: str) -> Response:
        return Response(self.get_serializer(access_source(asker(request), source)).data)

    @extend_schema(request=source_shapes.SourceChange)
    def partial_update(self, request: Request, source: str) -> Response:
        row = access_source(asker(request), source)
        data = checked(source_shapes.SourceChange(data=request.data))
        return Response(self.get_serializer(verbs.change(asker(request), row, **data)).data)

    @extend_schema(parameters=[OpenApiParameter("documents", bool)], responses={204: None})
    def destroy(self, request: Request, source: str) -> Response:
        """Forget the source. With `?documents=true` its documents go to the recycle bin; otherwise they stay."""
        row = access_source(asker(request), source)
        with_documents = request.query_params.get("documents", "").lower() in ("1", "true")
        verbs.delete(asker(request), row, with_documents=with_documents)
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(request=None, responses={201: source_shapes.SourceRunSerializer})
    @action(detail=True, methods=["post"])
    def sync(self, request: Request, source: str) -> Response:
        """Synchronise now."""
        row = access_source(asker(request), source)
        run = runs.start(asker(request), row, SourceRun.Trigger.PERSON)
        return Response(source_shapes.SourceRunSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, source: str) -> Response:
        """Stop the synchronisation that is under way; what came in stays."""
        row = access_source(asker(request), source)
        runs.cancel(asker(request), row)
        return Response(self.get_serializer(row).data)

    @extend_schema(responses=source_shapes.SourceRunSerializer(many=True))
    @action(detail=True, methods=["get"])
    def runs(self, request: Request, source: str) -> Response:
        """Its synchronisations, newest first."""
        rows = access_source(asker(request), source).runs.order_by("-number")
        page: Any = self.paginate_queryset(cast(Any, rows))
        return self.get_paginated_response(source_shapes.SourceRunSerializer(page, many=True).data)

    @extend_schema(
        parameters=[OpenApiParameter("state", str, enum=list(SourcePage.State.values))],
        responses=source_shapes.SourcePageSerializer(many=True),
    )
    @action(detail=True, methods=["get"])
    def pages(self, request: Request, source: str) -> Response:
        """Its pages and what is known of each: `?state=failed`."""
        rows = access_source(asker(request), source).pages.filter(is_map=False).select_related("document")
        if state := request.query_params.get("state"):
            rows = rows.filter(state=state)
        page: Any = self.paginate_queryset(cast(Any, rows.order_by("depth", "id")))
        return self.get_paginated_response(source_shapes.SourcePageSerializer(page, many=True).data)
