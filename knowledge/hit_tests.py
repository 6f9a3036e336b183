"""Hit tests: one question searched in every mode, side by side, kept as one record of the asker.

Alone decides what a saved run holds: `request` the settings, `result` the outcome of each mode by its
name, `thread` the base's uid. A run is kept only where the base keeps questions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import transaction

from knowledge import query_log
from knowledge.models import KnowledgeBase, QueryRecord
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import Mode, RetrievalRequest
from portal.kernel.errors import NotFound
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

# The order of the columns.
COLUMNS: tuple[Mode, ...] = ("embedding", "keywords", "blend")
KEPT_IN_LIST = 20


def start(principal: Principal, base: KnowledgeBase, query: str, settings: dict[str, Any]) -> QueryRecord | None:
    """A run without results yet; None where questions are not kept (`knowledge.query_log`)."""
    if not query_log.keeping(principal, [base]).kept:
        return None
    return QueryRecord.objects.create(
        workspace_id=principal.workspace_id,
        user_id=principal.user_id,
        kind=QueryRecord.Kind.HIT_TEST,
        thread=base.uid,
        query=str(json_safe(query))[:10_000],
        request=json_safe(settings),
        base_ids=[base.pk],
    )


def search(
    principal: Principal, request: RetrievalRequest, mode: Mode, run: QueryRecord | None = None
) -> dict[str, Any]:
    """One column: the outcome of a mode as JSON, put into the run when there is one. Raises what `retrieve` raises."""
    result = retrieve(principal, replace(request, mode=mode)).as_json()
    outcome: dict[str, Any] = json_safe(result)
    if run is not None:
        _put(run, mode, outcome)
    return outcome


@transaction.atomic
def _put(run: QueryRecord, mode: Mode, outcome: dict[str, Any]) -> None:
    # The columns arrive at the same time: each adds its own to what is there by then.
    row = QueryRecord.objects.select_for_update().filter(pk=run.pk).first()
    if row is None:
        return
    row.result = {**row.result, mode: outcome}
    row.hits = max(len(column["hits"]) for column in row.result.values())
    row.milliseconds = sum(column["milliseconds"] for column in row.result.values())
    row.save(update_fields=["result", "hits", "milliseconds"])
    run.result = row.result


def runs(principal: Principal, base: KnowledgeBase) -> list[QueryRecord]:
    """The asker's newest runs on a base that they see, without their results."""
    return list(
        QueryRecord.objects.filter(
            user_id=principal.user_id,
            workspace_id=principal.workspace_id,
            kind=QueryRecord.Kind.HIT_TEST,
            thread=base.uid,
        ).defer("result")[:KEPT_IN_LIST]
    )


def access_run(principal: Principal, base: KnowledgeBase, uid: str) -> QueryRecord:
    """A run of the asker on this base, which they see; `NotFound` for everybody else's."""
    row = QueryRecord.objects.filter(
        uid=uid,
        user_id=principal.user_id,
        workspace_id=principal.workspace_id,
        kind=QueryRecord.Kind.HIT_TEST,
        thread=base.uid,
    ).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    return row
