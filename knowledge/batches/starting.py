"""Starting a batch: what is selected is fixed here, in one statement, and the verb's parameters are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction
from django.db.models import QuerySet

from knowledge import background, selection
from knowledge.access import access_base, deleted_documents, visible_documents
from knowledge.batches.summary import may_undo
from knowledge.batches.verbs import find
from knowledge.models import Batch, BatchItem, Document, KnowledgeBase, Role
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal

Outcome = BatchItem.Outcome
# More than this is a sign of a slip; a base of this size is moved by export and import.
MOST = 100_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents. "ids": those named; "all": what the filter matches but the excluded; "bin": the recycle bin's.

    `expected` is how many the person was shown: when more match by now, nothing is done.
    """

    scope: Literal["ids", "all", "bin"] = "ids"
    ids: tuple[str, ...] = ()
    filter: str = ""
    exclude: tuple[str, ...] = ()
    expected: int | None = None

    @classmethod
    def of_form(cls, data: Any) -> Selection:
        """From the fields that the list's form sends (a `QueryDict`)."""
        scope, expected = data.get("scope", "ids"), data.get("expected", "")
        ids = [uid for entry in data.getlist("ids") for uid in entry.split(",") if uid]
        return cls(
            scope=scope if scope in ("all", "bin") else "ids",
            ids=tuple(ids[:MOST]),
            filter=data.get("filter", ""),
            exclude=tuple(data.getlist("exclude")[:1_000]),
            expected=int(expected) if expected.isdecimal() and len(expected) < 9 else None,
        )

    def documents(self, principal: Principal, base: KnowledgeBase, *, binned: bool = False) -> QuerySet[Document]:
        """The selected rows of a base that the asker may edit. Raises `Conflict` (list_changed)."""
        rows = deleted_documents(principal) if binned else visible_documents(principal, Role.EDITOR)
        rows = rows.filter(base=base)
        if self.scope == "ids":
            return rows.filter(uid__in=self.ids)
        if self.scope == "all" and not binned:
            matching = selection.matching(principal, base, selection.Filters.of_address(self.filter))
            rows = rows.filter(pk__in=matching.order_by().values("pk"))
        if self.expected is None or rows.count() > self.expected:
            raise Conflict(
                "More documents match now than when you chose them; look at the list again.", code="list_changed"
            )
        return rows.exclude(uid__in=self.exclude)

    def as_json(self) -> dict[str, Any]:
        """For the batch's record: how it was chosen, not what."""
        return {"scope": self.scope, "filter": self.filter[:2_000], "excluded": len(self.exclude)}


@transaction.atomic
def start(
    principal: Principal, base: KnowledgeBase, verb: str, chosen: Selection, params: Mapping[str, Any] | None = None
) -> Batch:
    """Fix the documents and queue the batch. The base comes from `access_base(…, EDITOR)`.

    Raises `Invalid` (nothing_selected, too_many, and what the verb's parameters ask for), `Conflict` (list_changed).
    """
    row = find(verb)
    checked = row.check(principal, base, dict(params or {}))
    rows = chosen.documents(principal, base, binned=row.binned)
    return _record(principal, base, verb, checked, chosen.as_json(), rows.order_by("pk").values_list("pk", "name"))


def _record(
    principal: Principal,
    base: KnowledgeBase,
    verb: str,
    params: dict[str, Any],
    how: dict[str, Any],
    rows: Any,
    **more: Any,
) -> Batch:
    found = list(rows[: MOST + 1])
    if not found:
        raise Invalid("No document was chosen.", code="nothing_selected")
    if len(found) > MOST:
        raise Invalid("Choose at most %(n)s documents at once.", code="too_many", n=MOST)
    batch = Batch.objects.create(
        **background.as_asked_by(principal),
        base=base,
        verb=verb,
        params=params,
        selection=how,
        total=len(found),
        **more,
    )
    BatchItem.objects.bulk_create(
        [BatchItem(batch=batch, document_id=pk, name=name) for pk, name in found], batch_size=2_000
    )
    audit.record(
        principal, "batch.start", batch, base_ids=[base.pk], verb=verb, params=params, documents=len(found), **how
    )
    return batch


@transaction.atomic
def undo(principal: Principal, batch: Batch) -> Batch:
    """Queue the reverse of what the batch did, document by document; each batch can be undone once."""
    row = Batch.objects.select_for_update(of=("self",)).select_related("base").get(pk=batch.pk)
    if not may_undo(row):
        raise Conflict("This can not be undone, or has been undone already.", code="not_undoable")
    done = row.items.filter(outcome=Outcome.DONE, document__isnull=False)
    base = access_base(principal, row.base.uid, Role.EDITOR)
    items = done.order_by("pk").values_list("document_id", "name")
    return _record(principal, base, row.verb, row.params, {"scope": "undo"}, items, undoes=row)


@transaction.atomic
def again(principal: Principal, batch: Batch) -> Batch:
    """Queue the documents of a batch that failed, once more."""
    if batch.is_open or batch.undoes_id is not None:
        raise Conflict("There is nothing to try again.", code="not_retryable")
    base = access_base(principal, batch.base.uid, Role.EDITOR)
    params = find(batch.verb).check(principal, base, batch.params)
    items = batch.items.filter(outcome=Outcome.FAILED, document__isnull=False)
    rows = items.order_by("pk").values_list("document_id", "name")
    return _record(principal, base, batch.verb, params, {"scope": "again"}, rows)
