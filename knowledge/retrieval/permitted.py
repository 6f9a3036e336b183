"""What a search may look at: the active, searchable revisions that the asker sees, narrowed by the request.

It is handed on as SQL, not as ids: every later statement evaluates it anew, so what was revoked,
disabled, deleted or superseded meanwhile is gone at the next statement. It reads one covering index
(`document_searchable`) and no revision: that an active revision is an indexed one, a move of the
lifecycle sees to; `passages.load` asks once more for what is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet

from knowledge import access, base_settings, metadata, statistics
from knowledge.models import Document, KnowledgeBase
from knowledge.retrieval.contract import Filters, RetrievalRequest
from portal.gateway.models import ModelEndpoint
from portal.kernel.principal import Principal

# Single chunks that a person switched off, and the leaves of such passages. They are few and have an index.
DISABLED_PASSAGES = "SELECT id FROM knowledge_chunk WHERE NOT enabled"
DISABLED_LEAVES = (
    "SELECT id FROM knowledge_chunk WHERE NOT enabled UNION ALL "
    "SELECT l.id FROM knowledge_chunk d JOIN knowledge_chunk l ON l.parent_id = d.id WHERE NOT d.enabled"
)


@dataclass(frozen=True, slots=True)
class SearchedBase:
    """A base of this search with the leaves of it that the asker may find."""

    base: KnowledgeBase
    leaves: int

    @property
    def settings(self) -> base_settings.BaseSettings:
        return base_settings.read(self.base.config)


@dataclass(frozen=True, slots=True)
class Permitted:
    """`sql` selects (revision_id, base_id) of what may be found; `params` fill its placeholders."""

    sql: str
    params: tuple[Any, ...]
    bases: tuple[SearchedBase, ...]

    @property
    def leaves(self) -> int:
        """How many leaves could match."""
        return sum(base.leaves for base in self.bases)

    @property
    def base_ids(self) -> tuple[int, ...]:
        return tuple(base.base.pk for base in self.bases)

    @property
    def cte(self) -> str:
        """The head of a statement that joins `permitted (revision_id, base_id)`, evaluated once and as a whole."""
        return f"permitted (revision_id, base_id) AS MATERIALIZED ({self.sql})"

    @property
    def lookup(self) -> str:
        """The same for a statement that has few rows to check: each is looked up, or all are, as the planner finds."""
        return f"permitted (revision_id, base_id) AS NOT MATERIALIZED ({self.sql})"


def resolve(principal: Principal, request: RetrievalRequest) -> Permitted:
    """The permitted set of a request. Bases that are hidden, absent or hold nothing are simply not in it."""
    documents = _narrowed(access.searchable_documents(principal), request.filters)
    visible = access.visible_bases(principal)
    if request.base_uids:
        visible = visible.filter(uid__in=request.base_uids)
        documents = documents.filter(base__uid__in=request.base_uids)
    try:
        sql, params = documents.order_by().values("active_revision_id", "base_id").query.sql_with_params()
        bases = list(visible)
    except EmptyResultSet:
        return Permitted("SELECT 0::bigint, 0::bigint WHERE false", (), ())
    if request.filters == Filters():  # noqa: SIM108 (two sources, told apart)
        counts = statistics.leaves([base.pk for base in bases])
    else:
        counts = _leaves(sql, params)
    searched = [SearchedBase(base, counts[base.pk]) for base in bases if base.pk in counts]
    _with_endpoints(searched)
    return Permitted(sql, tuple(params), tuple(_in_asked_order(searched, request.base_uids)))


def _with_endpoints(searched: list[SearchedBase]) -> None:
    """Give each base its embedding endpoint; the few that there are are read once, their spaces with them."""
    ids = {item.base.embedding_id for item in searched}
    endpoints = ModelEndpoint.objects.select_related("space").in_bulk(ids)
    for item in searched:
        item.base.embedding = endpoints[item.base.embedding_id]


def _narrowed(documents: QuerySet[Document], filters: Filters) -> QuerySet[Document]:
    if filters.document_uids:
        documents = documents.filter(uid__in=filters.document_uids)
    if filters.tags:
        documents = documents.filter(tags__contains=list(filters.tags))
    if filters.mimes:
        documents = documents.filter(active_revision__mime__in=filters.mimes)
    if filters.folder:
        folder = filters.folder.strip("/")
        documents = documents.filter(Q(folder=folder) | Q(folder__startswith=f"{folder}/"))
    if filters.updated_from:
        documents = documents.filter(updated_at__gte=datetime.combine(filters.updated_from, time.min, UTC))
    if filters.updated_to:
        documents = documents.filter(updated_at__lte=datetime.combine(filters.updated_to, time.max, UTC))
    return metadata.narrowed(documents, filters.metadata)


def _leaves(sql: str, params: tuple[Any, ...]) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH permitted (revision_id, base_id) AS ({sql}) "  # noqa: S608 (compiled by Django, values bound)
            "SELECT p.base_id, sum(r.chunk_count) FROM permitted p JOIN knowledge_revision r ON r.id = p.revision_id "
            "GROUP BY p.base_id",
            params,
        )
        return {base: int(leaves) for base, leaves in cursor.fetchall()}


def _in_asked_order(searched: list[SearchedBase], uids: tuple[str, ...]) -> list[SearchedBase]:
    """As the request names them, so that "the first base's settings" means what it says; else the oldest first."""
    if not uids:
        return sorted(searched, key=lambda item: item.base.pk)
    return sorted(searched, key=lambda item: uids.index(item.base.uid))
