"""What must always be true of the stored knowledge, checked by statements of its own.

The rules are written here a second time, on purpose: a check that asked the code it checks would
agree with its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from knowledge import statistics
from knowledge.models import KnowledgeBase
from knowledge.retrieval.contract import RetrievalRequest
from knowledge.retrieval.permitted import resolve
from portal.kernel import audit
from portal.kernel.models import Membership
from portal.kernel.principal import for_user


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise: whether it holds, and in words how much was looked at or what is wrong."""

    name: str
    ok: bool
    detail: str


def verify(*, repair: bool = False) -> list[Finding]:
    """Check every promise. `repair` recounts statistics that are wrong; nothing else is changed."""
    return [
        _searchable(),
        _empty("active revisions", "document(s) point to a revision that is not theirs or not indexed", _ACTIVE),
        _empty("vectors", "vector(s) belong to another revision than their chunk", _STRAY),
        _empty("complete", "searchable revision(s) lack chunks or vectors", _INCOMPLETE),
        _statistics(repair=repair),
        _audit(),
    ]


_ACTIVE = """
SELECT count(*) FROM knowledge_document d JOIN knowledge_revision r ON r.id = d.active_revision_id
 WHERE r.document_id <> d.id OR r.status <> 'indexed' OR r.base_id <> d.base_id
"""
_STRAY = """
SELECT count(*) FROM knowledge_chunkvector v JOIN knowledge_chunk c ON c.id = v.chunk_id
 WHERE c.revision_id <> v.revision_id OR c.level <> 'leaf'
"""
_INCOMPLETE = """
SELECT count(*) FROM knowledge_document d JOIN knowledge_revision r ON r.id = d.active_revision_id
 WHERE d.deleted_at IS NULL AND (
   r.chunk_count <> (SELECT count(*) FROM knowledge_chunk c WHERE c.revision_id = r.id AND c.level = 'leaf')
   OR (r.space_id IS NOT NULL AND r.chunk_count <> (
        SELECT count(*) FROM knowledge_chunkvector v WHERE v.revision_id = r.id AND v.space_id = r.space_id)))
"""
# Revisions that a search of this member reaches and should not. That active ones are indexed is a promise of its own:
# searches look at that once more only in what they show.
_LEAKED = """
WITH reached (revision_id, base_id) AS ({permitted})
SELECT count(*) FROM reached JOIN knowledge_revision r ON r.id = reached.revision_id
  JOIN knowledge_document d ON d.id = r.document_id JOIN knowledge_knowledgebase b ON b.id = d.base_id
 WHERE NOT coalesce(d.active_revision_id = r.id AND d.enabled AND d.deleted_at IS NULL
                    AND b.deleted_at IS NULL AND b.workspace_id = %s AND reached.base_id = b.id, false)
"""


def _searchable() -> Finding:
    """What each member's searches reach is active, indexed, enabled, not deleted and of their own workspace."""
    people = leaked = 0
    members = Membership.objects.filter(user__is_active=True).select_related("user", "workspace")
    for member in members.iterator():
        principal = for_user(member.user, door="command", workspace_uid=member.workspace.uid)
        permitted = resolve(principal, RetrievalRequest(""))
        with connection.cursor() as cursor:
            cursor.execute(_LEAKED.format(permitted=permitted.sql), [*permitted.params, member.workspace_id])
            leaked += int(cursor.fetchone()[0])
        people += 1
    detail = (
        f"{leaked} revision(s) can be found that must not be" if leaked else f"looked through {people} members' eyes"
    )
    return Finding("what can be found", leaked == 0, detail)


def _empty(name: str, wrong: str, sql: str) -> Finding:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        count = int(cursor.fetchone()[0])
    return Finding(name, count == 0, f"{count} {wrong}")


def _statistics(*, repair: bool) -> Finding:
    bases = list(KnowledgeBase.objects.filter(deleted_at__isnull=True).values_list("pk", "name"))
    wrong = [name for pk, name in bases if statistics.stored(pk) != statistics.recount(pk)]
    if not wrong:
        return Finding("word statistics", True, f"equal a recount in {len(bases)} base(s)")
    if repair:
        repaired = sum(statistics.repair(pk) for pk, _ in bases)
        return Finding("word statistics", True, f"were wrong in {repaired} base(s), and are repaired")
    return Finding("word statistics", False, f"wrong in: {', '.join(_first(wrong))}; run with --repair")


def _audit() -> Finding:
    broken = audit.verify()
    if broken is None:
        return Finding("audit log", True, "the chain is whole")
    return Finding("audit log", False, f"the chain breaks at position {broken}")


def _first(names: list[str], most: int = 5) -> Iterator[str]:
    yield from names[:most]
    if len(names) > most:
        yield f"{len(names) - most} more"
