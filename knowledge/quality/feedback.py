"""Rated answers as cases: what an asker found helpful is what the question expects."""

from __future__ import annotations

from django.db import transaction

from knowledge.access import visible_bases, visible_chunks
from knowledge.asking import readable_record
from knowledge.models import EvaluationCase, QueryRecord, Role
from knowledge.quality import cases
from portal.kernel.errors import Conflict, Denied, NotFound
from portal.kernel.principal import Principal

# Of an answer, the passages that count as what answers.
TAKEN = 3


def save(principal: Principal, thread: str, uid: str) -> int:
    """Put the asker's helpful answer into the sets of the bases that they may edit; returns how many.

    Raises `NotFound`, `Conflict` (not_rated) for an answer that was not rated "helpful", and `Denied`
    (role_too_small) when they may edit none of its bases.
    """
    record = readable_record(principal, uid)
    if record is None or record.kind != QueryRecord.Kind.ASK or record.thread != thread:
        raise NotFound("Not found, or you don't have access.")
    if record.helpful is not True:
        raise Conflict("Only an answer that was rated “Helpful” can be saved as a case.", code="not_rated")
    editable = {base.pk: base for base in visible_bases(principal, Role.EDITOR).filter(pk__in=record.base_ids)}
    ids = [hit["chunk"] for hit in record.result.get("hits", [])[:TAKEN]]
    rows = visible_chunks(principal).filter(pk__in=ids, revision__document__base__in=editable)
    targets: dict[int, list[cases.Target]] = {}
    for chunk in rows.select_related("revision__document"):
        base = editable[chunk.revision.document.base_id]
        targets.setdefault(base.pk, []).append(cases.target_of_chunk(base, chunk))
    if not targets:
        raise Denied("Your role on this knowledge base is too small for this.", code="role_too_small")
    with transaction.atomic():
        for pk, found in targets.items():
            cases.mark(principal, editable[pk], record.query, found, origin=EvaluationCase.Origin.RATED)
    return len(targets)
