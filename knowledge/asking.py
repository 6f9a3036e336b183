"""Asking: one retrieval, its direct answer, and its record. The ask page, the API and the command share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.utils.translation import gettext

from knowledge import query_log
from knowledge.access import all_visible, visible_bases
from knowledge.models import QueryRecord
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest, RetrievalResult
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

NOTHING_FOUND = "Nothing in your sources supports an answer."


def ask(
    principal: Principal, request: RetrievalRequest, *, kind: QueryRecord.Kind, thread: str = ""
) -> tuple[RetrievalResult, QueryRecord | None]:
    """Retrieve, and keep a record where the bases allow it. Raises what `retrieve` raises."""
    result = retrieve(principal, request)
    return result, keep(principal, request, result, kind=kind, thread=thread)


def direct_answer(result: RetrievalResult) -> str:
    """The passages themselves, numbered as they are cited; or the sentence that there are none."""
    if not result.hits:
        return gettext(NOTHING_FOUND)
    return "\n\n".join(f"[{hit.rank}] {hit.text}" for hit in result.hits)


def keep(
    principal: Principal,
    request: RetrievalRequest,
    result: RetrievalResult,
    *,
    kind: QueryRecord.Kind,
    thread: str = "",
    copied: Iterable[int] = (),
    **fields: Any,
) -> QueryRecord | None:
    """The record of a question, where questions are kept (`knowledge.query_log`).

    `copied` are further bases whose text stands in the answer; `fields` are further columns.
    """
    searched = list(visible_bases(principal).filter(id__in=result.base_ids))
    keeping = query_log.keeping(principal, searched)
    if not keeping.kept:
        return None
    # What was copied out of bases is named, so that it goes with them; the bases only searched do not matter.
    shown = {hit.base for hit in result.hits}
    base_ids = [base.pk for base in searched if base.uid in shown]
    return QueryRecord.objects.create(
        workspace_id=principal.workspace_id,
        user_id=principal.user_id,
        kind=kind,
        thread=thread,
        query=str(json_safe(request.query))[:10_000],
        request=json_safe(_request_json(request)),
        result=json_safe(result.as_json()),
        base_ids=list(dict.fromkeys([*base_ids, *copied])),
        searched_ids=sorted(base.pk for base in searched),
        best=max((hit.relevance for hit in result.hits), default=None),
        listed=keeping.listed,
        hits=len(result.hits),
        milliseconds=result.milliseconds,
        **fields,
    )


def _request_json(request: RetrievalRequest) -> dict[str, Any]:
    return {key: value for key, value in asdict(request).items() if key not in {"query", "filters"}}


def readable_records(principal: Principal, kind: QueryRecord.Kind, limit: int = 50) -> list[QueryRecord]:
    """The asker's own records, newest first, of which every base is still visible."""
    rows = QueryRecord.objects.filter(user_id=principal.user_id, workspace_id=principal.workspace_id, kind=kind)
    visible = set(visible_bases(principal).values_list("id", flat=True))
    return [row for row in rows[: limit * 2] if visible.issuperset(row.base_ids)][:limit]


def readable_record(principal: Principal, uid: str) -> QueryRecord | None:
    """One record of the asker, while every base that it was copied from is visible."""
    row = QueryRecord.objects.filter(uid=uid, user_id=principal.user_id, workspace_id=principal.workspace_id).first()
    return row if row is not None and all_visible(principal, row.base_ids) else None
