"""The settings of a search as they stand in an address: hit test and ask read, write and fingerprint them alike."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast
from urllib.parse import urlencode

from django.http import QueryDict

from knowledge.base_settings import Searching
from knowledge.metadata import written
from knowledge.retrieval.contract import MODES, RERANKS, Filters, Mode, RerankBy, RetrievalRequest

FUSIONS: tuple[Literal["convex", "rrf"], ...] = ("convex", "rrf")


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How to search; None and empty mean: as the base is set, and no narrowing. Limits are those of `Searching`."""

    mode: Mode | None = None
    top_k: int | None = None
    threshold: float | None = None
    weight: float | None = None
    fusion: Literal["convex", "rrf"] | None = None
    neighbours: int | None = None
    per_document: int | None = None
    diversity: float | None = None
    rerank: RerankBy | None = None
    folder: str = ""
    tag: str = ""
    type: str = ""
    # Conditions on metadata as people write them: "year >= 2024; region in east, west".
    meta: str = ""

    @classmethod
    def of(cls, data: QueryDict | Mapping[str, Any]) -> SearchSettings:
        """From an address, a form or a stored record; what is out of its limits counts as absent."""
        mode, fusion = data.get("mode"), data.get("fusion")
        return cls(
            mode=cast(Mode, mode) if mode in MODES else None,
            top_k=_whole(data.get("top_k"), 1, 50),
            threshold=_share(data.get("threshold")),
            weight=_share(data.get("weight")),
            fusion=cast('Literal["convex", "rrf"]', fusion) if fusion in FUSIONS else None,
            neighbours=_whole(data.get("neighbours"), 0, 3),
            folder=_text(data.get("folder"), 800).strip("/"),
            tag=_text(data.get("tag"), 60),
            type=_text(data.get("type"), 120),
            per_document=_whole(data.get("per_document"), 0, 20),
            diversity=_share(data.get("diversity")),
            rerank=next((known for known in RERANKS if known == data.get("rerank")), None),
            meta=_text(data.get("meta"), 500),
        )

    @property
    def chosen(self) -> dict[str, Any]:
        """What is set, by name."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    def filled(self, defaults: Searching) -> SearchSettings:
        """With a base's own values where nothing is set, so that nothing is left to be looked up later."""
        values = {
            name: getattr(defaults, name)
            for name in ("mode", "top_k", "threshold", "weight", "fusion", "neighbours", "per_document", "diversity")
            if getattr(self, name) is None
        }
        return replace(self, **values)

    def request(self, query: str, base_uids: Iterable[str]) -> RetrievalRequest:
        """The retrieval that these settings mean."""
        return RetrievalRequest(
            query=query,
            base_uids=tuple(base_uids),
            mode=self.mode,
            top_k=self.top_k,
            threshold=self.threshold,
            weight=self.weight,
            fusion=self.fusion,
            neighbours=self.neighbours,
            per_document=self.per_document,
            diversity=self.diversity,
            rerank=self.rerank,
            filters=Filters(
                folder=self.folder,
                tags=(self.tag,) if self.tag else (),
                mimes=(self.type,) if self.type else (),
                metadata=written(self.meta),
            ),
        )

    def encoded(self, base_uids: Iterable[str] = (), query: str = "") -> str:
        """As a query string that `of` reads back."""
        pairs: list[tuple[str, Any]] = [("q", query)] if query else []
        pairs += [("base", uid) for uid in base_uids]
        return urlencode(pairs + list(self.chosen.items()))

    def fingerprint(self, base_uids: Iterable[str]) -> str:
        """Eight letters that are the same exactly where the same settings search the same bases."""
        whole = json.dumps({**self.chosen, "bases": sorted(base_uids)}, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(whole.encode()).hexdigest()[:8]


def _text(value: object, limit: int) -> str:
    return " ".join(str(value or "").replace("\x00", "").split())[:limit]


def _whole(value: object, least: int, most: int) -> int | None:
    text = str(value if value is not None else "")
    if not text.isascii() or not text.isdecimal() or len(text) > 4:
        return None
    return int(text) if least <= int(text) <= most else None


def _share(value: object) -> float | None:
    try:
        number = float(str(value if value is not None else ""))
    except ValueError:
        return None
    return round(number, 4) if math.isfinite(number) and 0 <= number <= 1 else None
