"""Which passages of a base a model has not been asked about. The same text is never paid for twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import MD5

from knowledge.access import searchable_documents
from knowledge.models import Chunk, Generation, GenerationMark, KnowledgeBase
from portal.kernel.principal import Principal

Kind = Generation.Kind
# Shorter ones say too little to be asked about.
LEAST_TOKENS = 12


def all_passages(principal: Principal, base: KnowledgeBase) -> QuerySet[Chunk]:
    """The searchable passages of a base that are worth asking about."""
    revisions = searchable_documents(principal).filter(base=base).order_by().values("active_revision_id")
    return Chunk.objects.filter(
        level=Chunk.Level.PASSAGE, enabled=True, revision_id__in=revisions, token_count__gte=LEAST_TOKENS
    ).defer("lexemes")


def open_passages(principal: Principal, base: KnowledgeBase, kind: str) -> QuerySet[Chunk]:
    """Those of which nothing was made yet: in reading order, for cases strewn over the base."""
    marks = GenerationMark.objects.filter(base=base, kind=kind, sha256=OuterRef("sha256"))
    rows = all_passages(principal, base).exclude(Exists(marks))
    # A hash is chance that is the same again after a restart.
    return rows.order_by(MD5("sha256"), "pk") if kind == Kind.CASES else rows.order_by("revision_id", "ordinal", "pk")


def each_text_once(rows: Iterable[Chunk]) -> list[Chunk]:
    """The first passage of each text, in the order given; a mark on it counts for the others."""
    first: dict[str, Chunk] = {}
    for row in rows:
        first.setdefault(row.sha256, row)
    return list(first.values())


def mark(base: KnowledgeBase, kind: str, sha256: str, made: int) -> None:
    """Note that a text was worked on."""
    GenerationMark.objects.update_or_create(base=base, kind=kind, sha256=sha256, defaults={"made": made})


def unmark(base: KnowledgeBase, kind: str, texts: Sequence[str]) -> None:
    """Let these texts (their SHA-256) be worked on again."""
    GenerationMark.objects.filter(base=base, kind=kind, sha256__in=texts).delete()


def forget(base: KnowledgeBase, kind: str) -> None:
    """Let all passages be worked on anew."""
    GenerationMark.objects.filter(base=base, kind=kind).delete()
