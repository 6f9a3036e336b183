"""Terms of a base, and questions of its passages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge.access import access_base, access_chunk, access_question
from knowledge.models import Chunk, ChunkQuestion, Role, Term, TermChange
from knowledge.questions import sheets as question_sheets
from knowledge.questions import verbs as questions
from knowledge.sources.question_sheets import RowProblem
from knowledge.terms import sheets, verbs
from knowledge.terms.conflicts import conflicts
from portal.kernel.errors import Invalid, NotFound
from portal.kernel.principal import Principal
from portal.kernel.reading import asker, checked


class TermSerializer(serializers.ModelSerializer[Term]):
    """A term. `weight` multiplies its part in the score of a search by words."""

    id = serializers.CharField(source="uid", read_only=True)
    synonyms = serializers.ListField(
        child=serializers.CharField(max_length=verbs.LONGEST),
        max_length=verbs.MOST_SYNONYMS,
        required=False,
        default=list,
    )
    weight = serializers.FloatField(
        min_value=verbs.LEAST_WEIGHT, max_value=verbs.MOST_WEIGHT, required=False, default=1.0
    )

    class Meta:
        model = Term
        fields = ["id", "text", "synonyms", "weight", "updated_at"]


class ConflictOutput(serializers.Serializer[Any]):
    """`synonym_twice`, `term_is_synonym` or `cycle`: a word that belongs to several terms."""

    kind = serializers.CharField()
    word = serializers.CharField()
    terms = serializers.ListField(child=serializers.CharField())


class TermWorkSerializer(serializers.ModelSerializer[TermChange]):
    """The work that follows a change: `done` of `total` chunks were looked at, `changed` got other lexemes."""

    class Meta:
        model = TermChange
        fields = ["status", "done", "total", "changed", "created_at", "finished_at"]


class TermsOutput(serializers.Serializer[Any]):
    """All terms by name, what does not fit together, and the work that follows the last change."""

    terms = TermSerializer(many=True)
    conflicts = ConflictOutput(many=True)
    work = TermWorkSerializer(allow_null=True)


class RowProblemOutput(serializers.Serializer[Any]):
    """What is wrong with a row that was left out."""

    sheet = serializers.CharField()
    row = serializers.IntegerField()
    code = serializers.CharField()
    reason = serializers.SerializerMethodField()

    def get_reason(self, problem: RowProblem) -> str:
        return problem.sentence()


class FileInput(serializers.Serializer[Any]):
    """A CSV, TSV or XLSX file."""

    file = serializers.FileField()


class TermSheetInput(FileInput):
    """`replace`: terms that are not in it are deleted."""

    replace = serializers.BooleanField(required=False, default=False)


class TermsImported(serializers.Serializer[Any]):
    """How many rows were taken over."""

    taken = serializers.IntegerField()
    problems = RowProblemOutput(many=True)


class QuestionsImported(serializers.Serializer[Any]):
    """How many questions are new, how many the passages had already."""

    added = serializers.IntegerField()
    there = serializers.IntegerField()
    problems = RowProblemOutput(many=True)


class UidsInput(serializers.Serializer[Any]):
    """The ids of what shall be deleted."""

    ids = serializers.ListField(child=serializers.CharField(max_length=16), max_length=5_000)


class TermsView(APIView):
    """The terms of a base."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(
        operation_id="bases_terms_list",
        parameters=[OpenApiParameter("q", description="What one of its words holds.")],
        responses=TermsOutput,
    )
    def get(self, request: Request, base: str) -> Response:
        """All of them."""
        row = access_base(asker(request), base)
        body = {
            "terms": verbs.terms_of(row, request.query_params.get("q", "")),
            "conflicts": conflicts(verbs.terms_of(row)),
            "work": verbs.last_change(row),
        }
        return Response(TermsOutput(body).data)

    @extend_schema(request=TermSerializer, responses={201: TermSerializer})
    def post(self, request: Request, base: str) -> Response:
        """Add one."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        term = verbs.add(principal, row, _wanted(request))
        return Response(TermSerializer(term).data, status=status.HTTP_201_CREATED)

    @extend_schema(operation_id="bases_terms_destroy_several", request=UidsInput, responses={204: None})
    def delete(self, request: Request, base: str) -> Response:
        """Delete several."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        verbs.delete(principal, row, checked(UidsInput(data=request.data))["ids"])
        return Response(status=status.HTTP_204_NO_CONTENT)


class TermView(APIView):
    """One term of a base."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=TermSerializer)
    def get(self, request: Request, base: str, term: str) -> Response:
        return Response(TermSerializer(verbs.find(access_base(asker(request), base), term)).data)

    @extend_schema(request=TermSerializer, responses=TermSerializer)
    def put(self, request: Request, base: str, term: str) -> Response:
        """Replace it."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        found = verbs.find(row, term)
        return Response(TermSerializer(verbs.change(principal, row, found, _wanted(request))).data)

    @extend_schema(request=None, responses={204: None})
    def delete(self, request: Request, base: str, term: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        verbs.delete(principal, row, [verbs.find(row, term).uid])
        return Response(status=status.HTTP_204_NO_CONTENT)


def _wanted(request: Request) -> verbs.Wanted:
    data = checked(TermSerializer(data=request.data))
    return verbs.wanted(data["text"], data["synonyms"], data["weight"])


class TermSheetsView(APIView):
    """Terms from a sheet."""

    read_scopes = write_scopes = ("kb:write", "kb:manage")
    parser_classes = (MultiPartParser,)

    @extend_schema(request=TermSheetInput, responses=TermsImported)
    def post(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(TermSheetInput(data=request.data))
        with _stored(data["file"]) as path:
            sheet = sheets.read_sheet(path, data["file"].name)
        taken = verbs.take_over(principal, row, sheet.terms, replace=data["replace"]) if sheet.terms else 0
        return Response(TermsImported({"taken": taken, "problems": sheet.problems}).data)


@contextmanager
def _stored(upload: Any) -> Iterator[Path]:
    """An upload as a file on disk, while it is read."""
    with tempfile.TemporaryDirectory(prefix="archway-sheet-") as folder:
        path = Path(folder) / "sheet"
        with path.open("wb") as target:
            for part in upload.chunks():
                target.write(part)
        yield path


class QuestionSerializer(serializers.ModelSerializer[ChunkQuestion]):
    """A question of a passage. `current`: it was written for the passage as it reads now."""

    id = serializers.CharField(source="uid", read_only=True)
    chunk = serializers.IntegerField(source="chunk_id", read_only=True)
    current = serializers.SerializerMethodField()

    class Meta:
        model = ChunkQuestion
        fields = ["id", "chunk", "text", "source", "enabled", "current", "created_at"]
        read_only_fields = ["source", "created_at"]

    @extend_schema_field(bool)
    def get_current(self, question: ChunkQuestion) -> bool:
        return question.version == question.chunk.version


class QuestionsInput(serializers.Serializer[Any]):
    """The questions that the passage answers."""

    questions = serializers.ListField(
        child=serializers.CharField(max_length=questions.LONGEST), min_length=1, max_length=questions.MOST_OF_PASSAGE
    )


class QuestionChange(serializers.Serializer[Any]):
    """Another wording, or on or off."""

    text = serializers.CharField(max_length=questions.LONGEST, required=False)
    enabled = serializers.BooleanField(required=False)


class ChunkQuestionsView(APIView):
    """The questions of one passage."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=QuestionSerializer(many=True))
    def get(self, request: Request, chunk: str) -> Response:
        row = _chunk(asker(request), chunk)
        rows = ChunkQuestion.objects.filter(chunk=row).select_related("chunk").defer("lexemes", "chunk__lexemes")
        return Response(QuestionSerializer(rows.order_by("pk"), many=True).data)

    @extend_schema(request=QuestionsInput, responses={201: QuestionSerializer(many=True)})
    def post(self, request: Request, chunk: str) -> Response:
        """Add some; those that it has already are left out of the answer."""
        principal = asker(request)
        row = _chunk(principal, chunk, Role.EDITOR)
        added = questions.add(principal, row, checked(QuestionsInput(data=request.data))["questions"])
        return Response(QuestionSerializer(added, many=True).data, status=status.HTTP_201_CREATED)


def _chunk(principal: Principal, raw: str, at_least: Role = Role.VIEWER) -> Chunk:
    if not raw.isdecimal() or len(raw) > 18:
        raise NotFound("Not found, or you don't have access.")
    return access_chunk(principal, int(raw), at_least)


class QuestionView(APIView):
    """One question of a passage."""

    read_scopes = ("kb:read",)
    write_scopes = ("kb:write", "kb:manage")

    @extend_schema(responses=QuestionSerializer)
    def get(self, request: Request, question: str) -> Response:
        return Response(QuestionSerializer(access_question(asker(request), question)).data)

    @extend_schema(request=QuestionChange, responses=QuestionSerializer)
    def patch(self, request: Request, question: str) -> Response:
        principal = asker(request)
        row = access_question(principal, question, Role.EDITOR)
        data = checked(QuestionChange(data=request.data))
        if not data:
            raise Invalid("Give text or enabled.", code="invalid")
        if "text" in data:
            questions.change(principal, row, data["text"])
        if "enabled" in data:
            questions.set_enabled(principal, row, data["enabled"])
        return Response(QuestionSerializer(access_question(principal, question)).data)

    @extend_schema(request=None, responses={204: None})
    def delete(self, request: Request, question: str) -> Response:
        principal = asker(request)
        questions.delete(principal, access_question(principal, question, Role.EDITOR))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ChunkQuestionSheetsView(APIView):
    """Questions for passages that are there, from a sheet with document, passage and question."""

    read_scopes = write_scopes = ("kb:write", "kb:manage")
    parser_classes = (MultiPartParser,)

    @extend_schema(request=FileInput, responses=QuestionsImported)
    def post(self, request: Request, base: str) -> Response:
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        data = checked(FileInput(data=request.data))
        with _stored(data["file"]) as path:
            outcome = question_sheets.import_sheet(principal, row, path, data["file"].name)
        return Response(QuestionsImported(outcome).data)
