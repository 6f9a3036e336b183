"""Evaluation sets that `manage.py evaluate` has ingested, as the benches read them: leaves, names, judged rankings.

Importing this module sets Django up.
"""

# ruff: noqa: E402  (Django is set up first)

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from knowledge.evaluation import MEASURES, EvaluationSet, judge, read_set
from knowledge.evaluation_corpus import ensure_principal
from knowledge.ingestion.store import searchable_text
from knowledge.models import Chunk, Document, KnowledgeBase
from portal.kernel.principal import Principal

Matrix = NDArray[np.float32]
NDCG = MEASURES.index("ndcg@10")
# What is asked for: enough to hold the ten best documents.
DEPTH = 40


@dataclass(frozen=True)
class Ingested:
    """A set with its base. `names[uid]` are the ids of the set that a document stands for."""

    chosen: EvaluationSet
    principal: Principal
    base: KnowledgeBase
    names: dict[str, tuple[str, ...]]

    def scores(self, ranked: Iterable[str], query: str) -> tuple[float, ...]:
        """`MEASURES` of documents (uids, best first, repeats allowed)."""
        listed = list(dict.fromkeys(name for uid in ranked for name in self.names[uid]))
        return judge(listed, self.chosen.judged[query])


@dataclass(frozen=True)
class Leaves:
    """The leaves of a base in the order of their ids: the text that is searched, and the document's uid."""

    ids: list[int]
    texts: list[str]
    documents: list[str]


def folders(root: Path, names: Sequence[str]) -> Iterator[Path]:
    """The folders of the sets that are asked for, by name."""
    for folder in sorted(root.iterdir()):
        if (folder / "queries.jsonl").is_file() and (not names or folder.name in names):
            yield folder


def ingested(folder: Path, limit: int | None = None) -> Ingested:
    """The set with its base; raises `KnowledgeBase.DoesNotExist` when it was not ingested."""
    chosen = read_set(folder, limit)
    principal = ensure_principal()
    base = KnowledgeBase.objects.get(name=f"eval:{chosen.name}", workspace_id=principal.workspace_id)
    rows = Document.objects.filter(base=base).values_list("uid", "source_key", "tags")
    return Ingested(chosen, principal, base, {uid: (key, *tags) for uid, key, tags in rows})


def leaves(base: KnowledgeBase) -> Leaves:
    """All leaves that can be found, each with its document's name and the titles above it, as they are indexed."""
    active = Document.objects.filter(base=base, enabled=True).values("active_revision_id")
    rows = list(
        Chunk.objects.filter(level="leaf", revision__in=active)
        .order_by("pk")
        .values_list("pk", "revision__document__name", "parent__heading_path", "text", "revision__document__uid")
    )
    texts = [searchable_text(name, path, text) for _, name, path, text, _ in rows]
    return Leaves([pk for pk, *_ in rows], texts, [row[4] for row in rows])
