"""Shapes of the evaluation API: cases, runs, results, unanswered questions."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from knowledge.models import CaseResult, EvaluationCase, EvaluationRun
from knowledge.quality import cases, gate, runs
from knowledge.quality.cases import is_live
from knowledge.retrieval import MODES
from portal.kernel.errors import sentence_of


class CaseSerializer(serializers.ModelSerializer[EvaluationCase]):
    """A question with what it expects. `gone`: the document is no longer in the base."""

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    expected = serializers.SerializerMethodField()

    class Meta:
        model = EvaluationCase
        fields = ["id", "base", "question", "expected", "origin", "enabled", "created_at"]

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_expected(self, case: EvaluationCase) -> list[dict[str, Any]]:
        found = []
        for row in case.targets.all():
            live = is_live(row, case.base_id)
            found.append(
                {
                    "document": row.document.uid if row.document and live else None,
                    "snippet": row.snippet if live else "",
                    "grade": row.grade,
                    "gone": not live,
                }
            )
        return found


class ExpectedInput(serializers.Serializer[Any]):
    """What answers: a document (id, path or name), a chunk (its number) or a piece of text."""

    document = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")
    chunk = serializers.CharField(max_length=20, required=False, allow_blank=True, default="")
    snippet = serializers.CharField(max_length=cases.LONGEST_SNIPPET, required=False, allow_blank=True, default="")
    grade = serializers.IntegerField(min_value=1, max_value=10, required=False, default=1)


class CaseInput(serializers.Serializer[Any]):
    """A case."""

    question = serializers.CharField(max_length=cases.LONGEST_QUESTION)
    expected = ExpectedInput(many=True, allow_empty=False)


class CaseChange(serializers.Serializer[Any]):
    """Ask a case in runs, or leave it out; replace what it expects."""

    enabled = serializers.BooleanField(required=False, allow_null=True, default=None)
    expected = ExpectedInput(many=True, required=False, allow_empty=False)


class CaseFileInput(serializers.Serializer[Any]):
    """A CSV or JSONL file of cases, multipart."""

    file = serializers.FileField()


class ImportedOutput(serializers.Serializer[Any]):
    """What became of a file of cases."""

    added = serializers.IntegerField()
    known = serializers.IntegerField()
    problems = serializers.ListField(child=serializers.DictField())


class VariantInput(serializers.Serializer[Any]):
    """A way to search: a mode, and settings of `searching` that differ from the base's."""

    name = serializers.CharField(max_length=40)
    mode = serializers.ChoiceField(choices=MODES)
    settings = serializers.DictField(required=False, default=dict)


class RunInput(serializers.Serializer[Any]):
    """A run. Without variants: the three modes."""

    label = serializers.CharField(  # type: ignore[assignment]  # a field named like an attribute of fields
        max_length=200, required=False, allow_blank=True, default=""
    )
    variants = VariantInput(many=True, required=False, default=list)


class RunSerializer(serializers.ModelSerializer[EvaluationRun]):
    """A run: `done` of `total` questions are asked. `measures` by the variant's name; provisional while it is open.

    Of a run of the gate: `section` and `values` of the change, `verdict`, `applied`, and `fall` of the chosen measure.
    """

    id = serializers.CharField(source="uid", read_only=True)
    base = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    cancelling = serializers.BooleanField(source="cancel_requested", read_only=True)
    measures = serializers.SerializerMethodField()
    reason = serializers.SerializerMethodField()
    change = serializers.SerializerMethodField()

    class Meta:
        model = EvaluationRun
        fields = [
            "id", "base", "purpose", "label", "status", "cancelling", "done", "total", "variants", "measures",
            "change", "error_code", "reason", "created_at", "finished_at",
        ]  # fmt: skip

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_measures(self, run: EvaluationRun) -> dict[str, Any]:
        return runs.measures_of(run) if run.is_open else run.measures

    def get_reason(self, run: EvaluationRun) -> str:
        return sentence_of(run.error_message, run.error_params)

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_change(self, run: EvaluationRun) -> dict[str, Any] | None:
        if run.purpose != EvaluationRun.Purpose.GATE:
            return None
        return {
            "section": run.candidate["section"],
            "values": run.candidate["values"],
            "verdict": run.verdict,
            "applied": run.applied,
            "fall": None if run.is_open else gate.fall(run),
        }


class ResultSerializer(serializers.ModelSerializer[CaseResult]):
    """What one variant found for one case: `rank` of the first good one (null: not among the ten)."""

    case = serializers.SlugRelatedField[Any](slug_field="uid", read_only=True)
    question = serializers.CharField(source="case.question", read_only=True)
    judged = serializers.SerializerMethodField()

    class Meta:
        model = CaseResult
        fields = ["case", "question", "variant", "judged", "rank", "scores", "found", "milliseconds"]

    def get_judged(self, row: CaseResult) -> bool:
        return bool(row.scores)


class DecisionInput(serializers.Serializer[Any]):
    """What becomes of a held change. `save` needs a reason."""

    decision = serializers.ChoiceField(choices=["save", "drop"])
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class UnansweredOutput(serializers.Serializer[Any]):
    """Questions of near-equal wording that found no good answer: how often, when last, why; never by whom."""

    id = serializers.CharField(source="digest")
    question = serializers.CharField()
    wordings = serializers.ListField(child=serializers.CharField())
    count = serializers.IntegerField()
    last = serializers.DateTimeField()
    best = serializers.FloatField(allow_null=True)
    nothing_found = serializers.IntegerField(source="nothing")
    not_relevant = serializers.IntegerField(source="weak")
    not_helpful = serializers.IntegerField(source="disliked")


class SettleInput(serializers.Serializer[Any]):
    """Groups that a writer has dealt with, by id."""

    ids = serializers.ListField(child=serializers.CharField(max_length=64), allow_empty=False, max_length=1000)
