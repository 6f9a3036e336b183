"""Ask: an answer at once, or as server-sent events while it is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge.answering import preparing, records, writing
from knowledge.answering.contract import PROCESSINGS, Answer, AnswerRequest, Earlier, Event, Prepared, State
from knowledge.answering.live import framed
from knowledge.answering.prompting import Exchange
from knowledge.api import serializers as shapes
from knowledge.api.search import retrieval_request
from knowledge.models import QueryRecord
from portal.gateway.loops import to_the_end
from portal.kernel.principal import Principal
from portal.kernel.reading import asker, checked


class ExchangeInput(serializers.Serializer[Any]):
    """An earlier question of the conversation and its answer."""

    question = serializers.CharField(max_length=10_000)
    answer = serializers.CharField(max_length=50_000, allow_blank=True)


class AskInput(shapes.SearchInput):
    """A question; fields left out are as the base's settings say.

    `processing`: `direct` returns passages, `model_opt` answers from them by a chat model (`endpoint`, a uid, or the
    default). `rewrite`: a follow-up question is completed from `history` (oldest first). `stream`: server-sent events.
    """

    processing = serializers.ChoiceField(choices=PROCESSINGS, required=False, allow_null=True, default=None)
    endpoint = serializers.CharField(max_length=40, required=False, allow_blank=True, default="")
    rewrite = serializers.BooleanField(required=False, allow_null=True, default=None)
    history = serializers.ListField(child=ExchangeInput(), required=False, default=list, max_length=20)
    stream = serializers.BooleanField(required=False, default=False)


class AskOutput(serializers.Serializer[Any]):
    """An answer. `mode` says who answered: `direct` (the passages) or `model_opt` (a model, from the passages).

    `state` is done, no_basis, failed (the passages are the answer) or interrupted; `citations` are ranks of `hits`.
    """

    answer = serializers.CharField()
    mode = serializers.CharField()
    state = serializers.CharField()
    citations = serializers.ListField(child=serializers.IntegerField())
    hits = shapes.HitOutput(many=True)
    warnings = serializers.ListField(child=serializers.DictField())
    searched_for = serializers.CharField(allow_blank=True)
    model = serializers.CharField(allow_blank=True)
    demo = serializers.BooleanField()
    code = serializers.CharField(allow_blank=True)
    trace = serializers.JSONField(required=False)


class AskView(APIView):
    """An answer from the bases that the asker sees, with numbered citations."""

    read_scopes = write_scopes = ("chat", "kb:read")

    @extend_schema(request=AskInput, responses=AskOutput)
    def post(self, request: Request) -> HttpResponseBase:
        data = checked(AskInput(data=request.data))
        principal = asker(request)
        asked = AnswerRequest(
            retrieval=retrieval_request(data, data["bases"]),
            processing=data["processing"],
            endpoint=data["endpoint"],
            rewrite=data["rewrite"],
            history=tuple(Earlier(Exchange(item["question"], item["answer"])) for item in data["history"]),
        )
        prepared = preparing.prepare(principal, asked)
        if data["stream"]:
            return _stream(principal, asked, prepared, trace=data["trace"])
        answer = writing.whole(prepared)
        _keep(principal, asked, prepared, answer)
        return Response({**_body(prepared, answer.as_json()), **_found(prepared, trace=data["trace"])})


def _body(prepared: Prepared, answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "answer": answer["text"],
        "mode": answer["processing"],
        "state": answer["state"],
        "citations": answer["citations"],
        "warnings": [*prepared.result.warnings, *answer["warnings"]],
        "searched_for": answer["searched_for"],
        "model": answer["model"],
        "demo": answer["demo"],
        "code": answer["code"],
    }


def _found(prepared: Prepared, *, trace: bool) -> dict[str, Any]:
    found = prepared.result.as_json()
    return {"hits": found["hits"], **({"trace": found["trace"]} if trace else {})}


def _keep(principal: Principal, asked: AnswerRequest, prepared: Prepared, answer: Answer) -> None:
    direct = prepared.processing == "direct"
    records.keep(
        principal,
        asked,
        prepared,
        kind=QueryRecord.Kind.API,
        state=answer.state,
        answer=None if direct else answer,
    )


def _stream(principal: Principal, asked: AnswerRequest, prepared: Prepared, *, trace: bool) -> StreamingHttpResponse:
    response = StreamingHttpResponse(
        _events(principal, asked, prepared, trace=trace), content_type="text/event-stream; charset=utf-8"
    )
    # Proxies that buffer would hand the answer on in one piece.
    response.headers["X-Accel-Buffering"] = "no"
    response.headers["Cache-Control"] = "no-store"
    return response


async def _events(
    principal: Principal, asked: AnswerRequest, prepared: Prepared, *, trace: bool
) -> AsyncGenerator[str]:
    """The answer's events; a client that leaves cancels the call at the provider."""
    text, cited = "", []
    answer: Answer | None = None
    try:
        async with aclosing(writing.written(prepared)) as parts:
            number = 0
            async for event in parts:
                number += 1
                data = event.data
                if event.name == "answer.start":
                    data = {**data, **_found(prepared, trace=trace)}
                    data["warnings"] = [*prepared.result.warnings, *data["warnings"]]
                elif event.name == "answer.delta":
                    text += data["text"]
                elif event.name == "answer.citation":
                    cited.append(int(data["number"]))
                elif event.name == "answer.done":
                    answer = Answer.of(data)
                    data = _body(prepared, data)
                yield framed(Event(event.name, data), number)
    finally:
        if answer is None and prepared.asks_model:
            answer = writing.Draft(prepared).answer(State.STOPPED, text=text, citations=tuple(cited))
        if answer is not None:
            await to_the_end(sync_to_async(_keep)(principal, asked, prepared, answer))
