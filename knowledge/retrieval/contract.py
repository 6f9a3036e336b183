"""The shapes of a retrieval: what is asked, what comes back, and how it came about (`trace`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Literal

from knowledge.metadata import Condition

Mode = Literal["blend", "keywords", "embedding"]
RerankBy = Literal["off", "local", "endpoint", "model"]
RERANKS: tuple[RerankBy, ...] = ("off", "local", "endpoint", "model")
MODES: tuple[Mode, ...] = ("blend", "keywords", "embedding")


@dataclass(frozen=True, slots=True)
class Filters:
    """Narrowing before the top k is taken; empty means no narrowing."""

    document_uids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mimes: tuple[str, ...] = ()
    folder: str = ""
    updated_from: date | None = None
    updated_to: date | None = None
    metadata: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalRequest:
    """One question. None means: as the base's settings say (several bases: the first one's).

    `base_uids` empty: every base that the asker sees. `threshold` is on `relevance` (0–1). `weight`
    is the share of meaning in a blend (0–1). `neighbours`: passages before and after each hit.
    `per_document`: at most so many passages of one document, 0 for no limit. `diversity` (0–1): how much passages are
    to differ from those before them, 0 for not at all. `rerank`: who puts the best candidates
    into their final order; `rerank_endpoint` is the uid of the rerank or chat endpoint that does.
    """

    query: str
    base_uids: tuple[str, ...] = ()
    mode: Mode | None = None
    top_k: int | None = None
    threshold: float | None = None
    weight: float | None = None
    fusion: Literal["convex", "rrf"] | None = None
    neighbours: int | None = None
    per_document: int | None = None
    diversity: float | None = None
    rerank: RerankBy | None = None
    rerank_endpoint: str = ""
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True)
class Part:
    """Where a hit stood in one of the two lists that a blend is made of: rank from 1, raw score, scale's name."""

    rank: int
    score: float
    scale: str


@dataclass(frozen=True, slots=True)
class HitImage:
    """A picture that goes with a passage; `width` and `height` in pixels, 0 when not known."""

    key: str
    alt: str
    mime: str
    width: int
    height: int
    page: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers. `score` orders within its mode only; `relevance` (0–1) compares across modes and queries.

    `chunk` is the passage's id and `leaf` that of its best leaf; with `revision`, `version` (it grows with every
    change by hand) and `sha256` they are the citation. `highlights` are (start, end) offsets into `text`;
    `start` and `end` are offsets of the passage in the revision's parsed text. `recognised`: some of the text was
    read from a picture.
    """

    rank: int
    score: float
    scale: str
    relevance: float
    base: str
    base_name: str
    document: str
    document_name: str
    folder: str
    revision: str
    revision_number: int
    chunk: int
    leaf: int
    sha256: str
    text: str
    prefix: str
    heading_path: tuple[str, ...]
    page: int | None
    sheet: str | None
    rows: tuple[int, int] | None
    slide: int | None
    start: int
    end: int
    leaf_start: int
    leaf_end: int
    highlights: tuple[tuple[int, int], ...]
    parts: dict[str, Part] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    version: int = 1
    # The address of the web that the document was fetched from; empty for files.
    origin: str = ""
    images: tuple[HitImage, ...] = ()
    recognised: bool = False
    # The question of the passage through which it was found; empty when its own text matched best.
    question: str = ""

    @property
    def citation(self) -> str:
        """The address of the passage in its reader."""
        reader = f"/bases/{self.base}/documents/{self.document}/"
        # Without a number the first version is meant: what splitting made.
        version = f"&v={self.version}" if self.version > 1 else ""
        return f"{reader}?rev={self.revision_number}&chunk=c_{self.chunk}{version}#c_{self.chunk}"

    @property
    def place(self) -> str:
        """Where the passage stands, in words that need no language: heading path, page, sheet and rows, slide."""
        parts = list(self.heading_path)
        if self.page:
            parts.append(f"p. {self.page}")
        if self.sheet:
            parts.append(self.sheet + (f"!{self.rows[0]}–{self.rows[1]}" if self.rows else ""))
        if self.slide:
            parts.append(f"#{self.slide}")
        return " › ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, with `citation` and `place`, and with the addresses of the pictures."""
        images = [{**asdict(image), **self._addresses(image.key)} for image in self.images]
        return {**asdict(self), "citation": self.citation, "place": self.place, "images": images}

    def _addresses(self, key: str) -> dict[str, str]:
        """Where a picture is served to who may see the document: in a session, small, and to programs."""
        page = f"/bases/{self.base}/documents/{self.document}/images/{key}/?rev={self.revision_number}"
        api = f"/api/v1/revisions/{self.revision}/images/{key}"
        return {"url": page, "thumbnail": f"{page}&size=small", "api": api}


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """Hits, best first. No hit is not a failure: `searched` says how many leaves could have matched.

    `trace` holds: `query` (normalised), `lexemes` [{lexeme, chunks}], `steps` [{name, milliseconds,
    detail}], `plan` and why. `warnings` are [{code, message}] in plain words (meaning is away, …).
    """

    query: str
    mode: Mode
    hits: tuple[Hit, ...]
    searched: int
    below_threshold: int
    milliseconds: float
    base_ids: tuple[int, ...]
    warnings: tuple[dict[str, str], ...] = ()
    trace: dict[str, Any] = field(default_factory=dict)
    # [{kind, said, meant}] of words that were put right, and the query as it was searched (empty: as it was asked).
    corrections: tuple[dict[str, str], ...] = ()
    meant: str = ""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "query": self.query,
            "mode": self.mode,
            "hits": [hit.as_json() for hit in self.hits],
            "searched": self.searched,
            "below_threshold": self.below_threshold,
            "milliseconds": round(self.milliseconds, 1),
            "warnings": list(self.warnings),
            "corrections": list(self.corrections),
            "meant": self.meant,
            "trace": self.trace,
        }
