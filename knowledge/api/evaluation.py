"""The evaluation of a base: its cases, runs over them, decisions at the gate, questions without an answer."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from knowledge import background
from knowledge.access import access_base, visible_documents
from knowledge.api import evaluation_shapes as shapes
from knowledge.models import CaseResult, EvaluationCase, EvaluationRun, KnowledgeBase, Role
from knowledge.quality import cases, gate, runs, sheet, unanswered
from portal.kernel.principal import Principal
from portal.kernel.reading import asker, checked


def _targets(principal: Principal, base: KnowledgeBase, rows: list[dict[str, Any]]) -> list[cases.Target]:
    return [sheet.target_of(principal, base, {"question": "-", **row}) for row in rows]


class CasesView(GenericViewSet[EvaluationCase]):
    """The evaluation set of a base; POST adds a case, or a file of them."""

    serializer_class = shapes.CaseSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = EvaluationCase.objects.none()
    filter_backends: list[Any] = []

    def list(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        rows = cases.visible_cases(asker(request)).filter(base=row).select_related("base").order_by("-pk")
        page = self.paginate_queryset(rows.prefetch_related("targets__document"))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(request=shapes.CaseInput, responses={201: shapes.CaseSerializer})
    def create(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        data = checked(shapes.CaseInput(data=request.data))
        case = cases.add(asker(request), row, data["question"], _targets(asker(request), row, data["expected"]))
        return Response(self.get_serializer(case).data, status=status.HTTP_201_CREATED)


class CaseFileView(APIView):
    """Cases from a CSV or JSONL file; rows that are wrong are told, the others are kept."""

    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    parser_classes = [MultiPartParser]

    @extend_schema(request={"multipart/form-data": shapes.CaseFileInput}, responses={201: shapes.ImportedOutput})
    def post(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        file = checked(shapes.CaseFileInput(data=request.data))["file"]
        if file.size > sheet.MOST_BYTES:
            raise sheet.too_large()
        done = sheet.import_file(asker(request), row, file.read(), file.name)
        problems = [{"row": item.row, "message": item.sentence()} for item in done.problems]
        body = {"added": done.added, "known": done.known, "problems": problems}
        return Response(body, status=status.HTTP_201_CREATED)


class CaseView(APIView):
    """One case."""

    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=shapes.CaseSerializer)
    def get(self, request: Request, case: str) -> Response:
        return Response(shapes.CaseSerializer(cases.access_case(asker(request), case)).data)

    @extend_schema(request=shapes.CaseChange, responses=shapes.CaseSerializer)
    def patch(self, request: Request, case: str) -> Response:
        row = cases.access_case(asker(request), case)
        data = checked(shapes.CaseChange(data=request.data))
        if data.get("expected"):
            cases.expect(asker(request), row, _targets(asker(request), row.base, data["expected"]))
        if data["enabled"] is not None:
            cases.enable(asker(request), row, data["enabled"])
        return Response(shapes.CaseSerializer(cases.access_case(asker(request), case)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, case: str) -> Response:
        cases.delete(asker(request), cases.access_case(asker(request), case))
        return Response(status=status.HTTP_204_NO_CONTENT)


class RunsView(GenericViewSet[EvaluationRun]):
    """The runs of a base, newest first; POST starts one."""

    serializer_class = shapes.RunSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = EvaluationRun.objects.none()
    filter_backends: list[Any] = []

    def list(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        page = self.paginate_queryset(
            runs.visible_runs(asker(request)).filter(base=row).select_related("base").order_by("-pk")
        )
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(request=shapes.RunInput, responses={202: shapes.RunSerializer})
    def create(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.EDITOR)
        data = checked(shapes.RunInput(data=request.data))
        run = runs.start(asker(request), row, [dict(item) for item in data["variants"]], label=data["label"])
        return Response(self.get_serializer(run).data, status=status.HTTP_202_ACCEPTED)


class RunView(GenericViewSet[EvaluationRun]):
    """One run: how far it is and what it measured; its results; stopping it; deciding about a held change."""

    serializer_class = shapes.RunSerializer
    read_scopes = ("kb:write", "kb:manage")
    write_scopes = ("kb:write", "kb:manage")
    queryset = EvaluationRun.objects.none()
    filter_backends: list[Any] = []

    def retrieve(self, request: Request, evaluation: str) -> Response:
        return Response(self.get_serializer(runs.access_run(asker(request), evaluation)).data)

    @extend_schema(request=None, responses={202: shapes.RunSerializer})
    def cancel(self, request: Request, evaluation: str) -> Response:
        run = runs.access_run(asker(request), evaluation)
        background.cancel(asker(request), run)
        run.refresh_from_db()
        return Response(self.get_serializer(run).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=shapes.DecisionInput, responses=shapes.RunSerializer)
    def decide(self, request: Request, evaluation: str) -> Response:
        run = runs.access_run(asker(request), evaluation)
        access_base(asker(request), run.base.uid, Role.OWNER)
        data = checked(shapes.DecisionInput(data=request.data))
        if data["decision"] == "save":
            gate.overrule(asker(request), run, data["reason"])
        else:
            gate.drop(asker(request), run)
        run.refresh_from_db()
        return Response(self.get_serializer(run).data)

    @extend_schema(parameters=[OpenApiParameter("variant", str)], responses=shapes.ResultSerializer(many=True))
    def results(self, request: Request, evaluation: str) -> Response:
        run = runs.access_run(asker(request), evaluation)
        rows: QuerySet[CaseResult] = CaseResult.objects.filter(run=run).select_related("case").order_by("pk")
        if variant := request.query_params.get("variant"):
            rows = rows.filter(variant=variant)
        page: Any = self.paginate_queryset(rows)  # type: ignore[arg-type]
        return self.get_paginated_response(_still_there(asker(request), run, page))


def _still_there(principal: Principal, run: EvaluationRun, rows: list[CaseResult]) -> list[Any]:
    """Results whose documents are gone by now keep the rank, and lose the id."""
    uids = {place["document"] for row in rows for place in row.found}
    live = set(visible_documents(principal).filter(base=run.base, uid__in=uids).values_list("uid", flat=True))
    for row in rows:
        row.found = [
            place if place["document"] in live else {**place, "document": None, "chunk": None} for place in row.found
        ]
    return list(shapes.ResultSerializer(rows, many=True).data)


class UnansweredView(APIView):
    """Questions that the base did not answer, most often first, for those who manage it; POST settles groups."""

    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)

    @extend_schema(
        parameters=[OpenApiParameter("q", str), OpenApiParameter("limit", int)],
        responses=shapes.UnansweredOutput(many=True),
    )
    def get(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        raw = request.query_params.get("limit", "100")
        limit = min(int(raw), 1000) if raw.isdecimal() and len(raw) < 6 else 100
        found = unanswered.groups(row, request.query_params.get("q", "").replace("\x00", "")[:200])
        return Response(shapes.UnansweredOutput(found[:limit], many=True).data)

    @extend_schema(request=shapes.SettleInput, responses={204: None})
    def post(self, request: Request, base: str) -> Response:
        row = access_base(asker(request), base, Role.OWNER)
        unanswered.settle(asker(request), row, checked(shapes.SettleInput(data=request.data))["ids"])
        return Response(status=status.HTTP_204_NO_CONTENT)
