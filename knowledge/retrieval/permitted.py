"""What a search may look at: the active, searchable revisions that the asker sees, narrowed by the request.

It is handed on as SQL, not as ids: every later statement evaluates it anew, so what was revoked,
disabled, deleted or superseded meanwhile is gone at the next statement. It reads one covering index
(`document_searchable`) and no revision: that an active revision is an indexed one, a move of the
lifecycle sees to; `passages.load` asks once more for what is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import lru_cache
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

    def revisions(self) -> list[int]:
        """The ids as they are now: what a statement may narrow itself to, beside asking for `permitted` itself."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT revision_id FROM ({self.sql}) AS permitted (revision_id, base_id)",  # noqa: S608 (see `resolve`)
                self.params,
            )
            return [row[0] for row in cursor.fetchall()]


def resolve(principal: Principal, request: RetrievalRequest) -> Permitted:
    """The permitted set of a request. Bases that are hidden, absent or hold nothing are simply not in it."""
    statements = (_written if request.filters.metadata else _kept)(principal, request.filters, request.base_uids)
    if statements is None:
        return Permitted("SELECT 0::bigint, 0::bigint WHERE false", (), ())
    sql, params = statements.documents
    bases = list(KnowledgeBase.objects.raw(*statements.bases))
    if request.filters == Filters():  # noqa: SIM108 (two sources, told apart)
        counts = statistics.leaves([base.pk for base in bases])
    else:
        counts = _leaves(sql, params)
    searched = [SearchedBase(base, counts[base.pk]) for base in bases if base.pk in counts]
    _with_endpoints(searched)
    return Permitted(sql, params, tuple(_in_asked_order(searched, request.base_uids)))


Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _Statements:
    """The rules of access for one asker as SQL: of the documents that may be found, and of the visible bases."""

    documents: Statement
    bases: Statement


def _written(principal: Principal, filters: Filters, base_uids: tuple[str, ...]) -> _Statements | None:
    """None when the rules let nothing through whatever there is."""
    documents = _narrowed(access.searchable_documents(principal), filters)
    visible = access.visible_bases(principal)
    if base_uids:
        visible = visible.filter(uid__in=base_uids)
        documents = documents.filter(base__uid__in=base_uids)
    try:
        sql, params = documents.order_by().values("active_revision_id", "base_id").query.sql_with_params()
        bases, base_params = visible.query.sql_with_params()
    except EmptyResultSet:
        return None
    return _Statements((sql, tuple(params)), (bases, tuple(base_params)))


# Django takes longer to write the rules of access down than PostgreSQL to follow them; what is kept is their text,
# never what they let through. Not with conditions on metadata: 1, 1.0 and True are one key and three conditions.
_kept = lru_cache(maxsize=1_000)(_written)


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
