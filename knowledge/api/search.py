"""Search: passages without an answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import asking
from knowledge.api import serializers as shapes
from knowledge.metadata import condition
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import Filters, RetrievalRequest
from portal.kernel.reading import asker, checked


def retrieval_request(data: dict[str, Any], bases: list[str]) -> RetrievalRequest:
    """The request that a checked body means."""
    filters = data.get("filters") or {}
    return RetrievalRequest(
        query=data["query"],
        base_uids=tuple(bases),
        mode=data["mode"],
        top_k=data["top_k"],
        threshold=data["threshold"],
        weight=data["weight"],
        fusion=data["fusion"],
        neighbours=data["neighbours"],
        per_document=data["per_document"],
        diversity=data["diversity"],
        rerank=data["rerank"],
        rerank_endpoint=data["rerank_endpoint"],
        filters=Filters(
            document_uids=tuple(filters.get("documents", ())),
            tags=tuple(filters.get("tags", ())),
            mimes=tuple(filters.get("types", ())),
            folder=filters.get("folder", ""),
            updated_from=filters.get("updated_from"),
            updated_to=filters.get("updated_to"),
            metadata=tuple(condition(row["key"], row["op"], row["value"]) for row in filters.get("metadata", ())),
        ),
    )


class SearchView(APIView):
    """Passages that answer a question, best first."""

    read_scopes = write_scopes = ("kb:read", "chat")

    @extend_schema(request=shapes.SearchInput, responses=shapes.SearchOutput)
    def post(self, request: Request, base: str | None = None) -> Response:
        data = checked(shapes.SearchInput(data=request.data))
        bases = [base] if base else data["bases"]
        result, _ = asking.ask(asker(request), retrieval_request(data, bases), kind=QueryRecord.Kind.API)
        body = result.as_json()
        if not data["trace"]:
            del body["trace"]
        return Response(body)
