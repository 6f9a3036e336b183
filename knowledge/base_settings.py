"""A base's settings: names, defaults, limits. Stored as JSON, checked here whatever door they come through."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge.ingestion.split.patterns import compiled
from portal.kernel.errors import Invalid


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Splitting(_Section):
    """How text becomes passages and leaves; sizes in tokens of the base's embedding model."""

    mode: Literal["smart", "separators", "qa", "rows"] = "smart"
    passage_tokens: int = Field(default=400, ge=50, le=2000)
    leaf_tokens: int = Field(default=110, ge=30, le=500)
    overlap_tokens: int = Field(default=0, ge=0, le=200)
    separators: list[str] = Field(default_factory=list, max_length=20)
    patterns: list[str] = Field(default_factory=list, max_length=20)
    heading_level: int = Field(default=0, ge=0, le=6)
    question_column: str = Field(default="", max_length=200)
    answer_column: str = Field(default="", max_length=200)
    # Clean-up before splitting; offsets then point into the cleaned text.
    clean_spaces: bool = False
    clean_blank_lines: bool = False
    remove_urls: bool = False
    remove_emails: bool = False
    remove_patterns: list[str] = Field(default_factory=list, max_length=20)
    review: Literal["never", "always"] = "never"


class Pictures(_Section):
    """Which pictures are searched for text where text recognition is installed (`read_file.Recognition`)."""

    recognition: Literal["all", "pages", "off"] = "all"


class Searching(_Section):
    """Defaults of a search in this base. `threshold` is on relevance, `weight` the share of meaning in a blend."""

    mode: Literal["blend", "keywords", "embedding"] = "blend"
    top_k: int = Field(default=5, ge=1, le=50)
    threshold: float = Field(default=0.0, ge=0, le=1)
    weight: float = Field(default=0.6, ge=0, le=1)
    fusion: Literal["convex", "rrf"] = "convex"
    neighbours: int = Field(default=0, ge=0, le=3)
    # At most so many passages of one document; 0: no limit.
    per_document: int = Field(default=0, ge=0, le=20)
    # How much passages are to differ from those before them (`knowledge.retrieval.diversity`); 0: not at all.
    diversity: float = Field(default=0.0, ge=0, le=1)
    # Latin words that stand nowhere are searched as the nearest word that does; pinyin as the words that sound so.
    typos: bool = False
    pinyin: bool = False
    log_queries: bool = True


class Reranking(_Section):
    """Who puts the best candidates into their final order. `endpoint` is the uid of a rerank or chat endpoint."""

    by: Literal["off", "local", "endpoint", "model"] = "off"
    endpoint: str = Field(default="", max_length=40)
    # After so long the order stays as it was.
    seconds: float = Field(default=5.0, ge=0.2, le=60)


class Answering(_Section):
    """What becomes of the passages found: shown (`direct`), or answered from by a chat model (`model_opt`).

    `endpoint` is the uid of a chat endpoint, empty for the default one. Passages whose best is less relevant than
    `least_relevance` are no basis for an answer. `rewrite`: follow-up questions are made to stand for themselves.
    `reuse`: where the operator keeps answers, one may be given again to the same person's same question.
    """

    processing: Literal["direct", "model_opt"] = "direct"
    endpoint: str = Field(default="", max_length=40)
    least_relevance: float = Field(default=0.1, ge=0, le=1)
    rewrite: bool = False
    reuse: bool = True


class Outside(_Section):
    """To which models outside the house a sensitive base's text may go: uids of endpoints, none unless allowed."""

    endpoints: list[str] = Field(default_factory=list, max_length=50)


class Quality(_Section):
    """What happens when a change of settings makes the base's evaluation set worse (`knowledge.quality.gate`).

    `measure` may fall by `tolerance` at most, of a mean between 0 and 1. Questions whose best passage is less
    relevant than `unanswered_below` are listed for those who write the base.
    """

    gate: Literal["off", "warn", "block"] = "off"
    measure: Literal["recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10"] = "ndcg@10"
    tolerance: float = Field(default=0.02, ge=0, le=1)
    unanswered_below: float = Field(default=0.5, ge=0, le=1)


class BaseSettings(_Section):
    """All settings of a base, by section. Each section is saved on its own."""

    splitting: Splitting = Splitting()
    pictures: Pictures = Pictures()
    searching: Searching = Searching()
    reranking: Reranking = Reranking()
    answering: Answering = Answering()
    outside: Outside = Outside()
    quality: Quality = Quality()


def read(config: dict[str, Any]) -> BaseSettings:
    """The settings stored in a base; sections that are missing take their defaults."""
    return BaseSettings.model_validate(config)


def with_section(config: dict[str, Any], section: str, values: dict[str, Any]) -> dict[str, Any]:
    """`config` with one section replaced by checked `values`; `Invalid` says which field is wrong and how.

    Patterns that are no usable regular expressions are refused here (`bad_pattern`), not at the next document.
    """
    try:
        checked = BaseSettings.model_validate({**config, section: values})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise Invalid("%(field)s: %(problem)s", code="settings_invalid", field=field, problem=first["msg"]) from error
    compiled(checked.splitting.patterns, checked.splitting.separators)
    compiled(checked.splitting.remove_patterns)
    return checked.model_dump(mode="json")


def with_splitting(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`config` of a base or revision with some fields of the splitting changed; checked as `with_section` does."""
    now = read(config).splitting.model_dump(mode="json")
    return with_section(config, "splitting", {**now, **changes})
