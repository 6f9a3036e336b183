"""Questions that a base did not answer, grouped by their wording, for those who write it.

Only questions that their askers let be listed (`knowledge.query_log`), in numbers and without names. Unanswered is
what found nothing, found nothing relevant enough, or was rated "not helpful".
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from knowledge import base_settings
from knowledge.models import KnowledgeBase, QueryRecord, SettledQuestion
from knowledge.text import normalise, query_lexemes
from portal.kernel import audit
from portal.kernel.principal import Principal

# The newest questions that are looked at.
LOOKED_AT = 5_000
# Two wordings are one group when so much of their lexemes is the same (Jaccard).
NEAR = 0.6
WORDINGS_SHOWN = 5


@dataclass(slots=True)
class Group:
    """Questions of near-equal wording. `question` is the newest wording, `best` the best relevance any of them had."""

    question: str
    last: datetime
    lexemes: frozenset[str]
    digest: str
    count: int = 0
    nothing: int = 0
    weak: int = 0
    disliked: int = 0
    best: float | None = None
    wordings: list[str] = field(default_factory=list)

    def take(self, record: QueryRecord) -> None:
        """Count one more question."""
        self.count += 1
        self.disliked += record.helpful is False
        self.nothing += record.best is None
        self.weak += record.best is not None and record.helpful is not False
        if record.best is not None:
            self.best = max(self.best or 0.0, record.best)
        wording = " ".join(record.query.split())[:300]
        if wording not in self.wordings and len(self.wordings) < WORDINGS_SHOWN:
            self.wordings.append(wording)


def records(base: KnowledgeBase) -> QuerySet[QueryRecord]:
    """The listed questions that the base did not answer, newest first. An answer that helped is none of them."""
    below = base_settings.read(base.config).quality.unanswered_below
    missed = Q(best__isnull=True) | Q(best__lt=below) | Q(helpful=False)
    asked = (QueryRecord.Kind.ASK, QueryRecord.Kind.API)
    return QueryRecord.objects.filter(
        missed, listed=True, searched_ids__contains=[base.pk], kind__in=asked, workspace_id=base.workspace_id
    ).exclude(helpful=True)


def groups(base: KnowledgeBase, term: str = "") -> list[Group]:
    """What was asked in vain, most often first, then newest; the base comes from `access_base(…, OWNER)`."""
    rows = records(base).only("query", "best", "helpful", "at").order_by("-id")[:LOOKED_AT]
    settled = dict(SettledQuestion.objects.filter(base=base).values_list("digest", "at"))
    found = [group for group in _grouped(list(rows)) if group.last > settled.get(group.digest, _NEVER)]
    wanted = normalise(term).text.strip()
    if wanted:
        found = [group for group in found if any(wanted in normalise(text).text for text in group.wordings)]
    return sorted(found, key=lambda group: (-group.count, -group.last.timestamp()))


_NEVER = datetime.min.replace(tzinfo=timezone.get_default_timezone())


def _grouped(rows: Sequence[QueryRecord]) -> Iterator[Group]:
    """Each question joins the first group whose lexemes are near enough; groups with common lexemes are compared."""
    found: list[Group] = []
    exact: dict[frozenset[str], Group] = {}
    holding: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        lexemes = frozenset(query_lexemes(row.query)) or frozenset([normalise(row.query).text.strip()])
        group = exact.get(lexemes) or _nearest(lexemes, found, holding)
        if group is None:
            digest = hashlib.sha256("\n".join(sorted(lexemes)).encode()).hexdigest()
            group = Group(" ".join(row.query.split())[:300], row.at, lexemes, digest)
            for lexeme in lexemes:
                holding[lexeme].append(len(found))
            found.append(group)
        exact[lexemes] = group
        group.take(row)
    yield from found


def _nearest(lexemes: frozenset[str], found: Sequence[Group], holding: dict[str, list[int]]) -> Group | None:
    shared: dict[int, int] = defaultdict(int)
    for lexeme in lexemes:
        for number in holding.get(lexeme, ()):
            shared[number] += 1
    best, nearest = 0.0, None
    for number, common in shared.items():
        share = common / (len(lexemes) + len(found[number].lexemes) - common)
        if share >= NEAR and share > best:
            best, nearest = share, found[number]
    return nearest


@transaction.atomic
def settle(principal: Principal, base: KnowledgeBase, digests: Sequence[str]) -> int:
    """Take groups off the list until they are asked again; returns how many."""
    chosen = [digest for digest in dict.fromkeys(digests) if len(digest) == 64][:1_000]
    for digest in chosen:
        SettledQuestion.objects.update_or_create(
            base=base, digest=digest, defaults={"by_id": principal.user_id, "at": timezone.now()}
        )
    if chosen:
        audit.record(principal, "unanswered.settle", base, base_ids=[base.pk], questions=len(chosen))
    return len(chosen)
