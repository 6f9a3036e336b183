"""One decision about several revisions that wait for review; each is its own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import QuerySet

from knowledge import lifecycle
from knowledge.access import visible_revisions
from knowledge.models import KnowledgeBase, Revision, Role
from portal.kernel.errors import ArchwayError, NotFound
from portal.kernel.principal import Principal

Action = Literal["confirm", "discard", "resplit"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one revision: no error means that it was done."""

    uid: str
    name: str
    error: ArchwayError | None


def waiting(principal: Principal, base: KnowledgeBase) -> QuerySet[Revision]:
    """The revisions of a base that wait for a review, those that wait longest first."""
    rows = visible_revisions(principal).filter(base=base, status=Revision.Status.REVIEW)
    return rows.select_related("document", "document__base", "created_by").order_by("finished_at", "pk")


def decide(
    principal: Principal,
    base: KnowledgeBase,
    uids: Sequence[str],
    action: Action,
    splitting: dict[str, Any],
    *,
    discard_edits: bool = False,
) -> list[Outcome]:
    """Approve, discard or split again the revisions named, in the order named; what can not be done is told."""
    mine = visible_revisions(principal, Role.EDITOR).filter(base=base, uid__in=list(uids))
    rows = {row.uid: row for row in mine.select_related("document", "document__base")}
    outcomes = []
    for uid in dict.fromkeys(uids):
        row = rows.get(uid)
        try:
            if row is None:
                raise NotFound("Not found, or you don't have access.")
            if action == "confirm":
                lifecycle.confirm(principal, row)
            elif action == "discard":
                lifecycle.cancel(principal, row)
            else:
                lifecycle.resplit(principal, row, splitting, discard_edits=discard_edits)
        except ArchwayError as error:
            outcomes.append(Outcome(uid, row.document.name if row else "", error))
        else:
            outcomes.append(Outcome(uid, row.document.name, None))
    return outcomes
