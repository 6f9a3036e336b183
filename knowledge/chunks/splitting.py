"""The text of a revision split by some settings, by the functions that indexing uses; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from knowledge import base_settings
from knowledge.chunks.handwork import Made
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.kept import as_read, tidied_key
from knowledge.ingestion.split import Passage, split, tidy
from knowledge.ingestion.store import digest
from knowledge.ingestion.transformations import rules_of, settings_of
from knowledge.models import Revision
from knowledge.text import clean
from portal.gateway.embedding import counter_for
from portal.kernel.errors import Conflict

# A trial is made while the person waits: some two seconds of work. Of a longer text its beginning is split.
TRIAL_CHARS = 1_000_000


@dataclass(frozen=True, slots=True)
class Trial:
    """A split that is not stored: of the text as it was `read`, `cleaned` up, of all of it or only its beginning.

    `parsed_key` names the text that places point into.
    """

    read: ParsedDocument
    cleaned: ParsedDocument
    passages: tuple[Passage, ...]
    whole: bool
    parsed_key: str


def trial(revision: Revision, config: dict[str, Any]) -> Trial:
    """Raises `Invalid` for settings that can not be used and `Conflict` (text_missing) while the text is not read."""
    document = as_read(revision)
    if document is None:
        raise Conflict("The text is not read yet; try again when it is.", code="text_missing")
    chosen = base_settings.read(config).splitting
    rules = rules_of(chosen)
    shown, whole = _beginning(document)
    cleaned = tidy(shown, rules)
    passages = split(cleaned, counter_for(revision.document.base.embedding), settings_of(chosen))
    return Trial(shown, cleaned, passages, whole, tidied_key(revision.raw_key, rules))


def as_made(passages: Sequence[Passage]) -> list[Made]:
    """The passages as their rows would be made."""
    return [
        Made(
            digest(clean(one.text)),
            one.start,
            one.end,
            tuple(clean(title) for title in one.heading_path),
            one.page,
            one.sheet and clean(one.sheet),
            row_first=one.rows[0] if one.rows else None,
            row_last=one.rows[1] if one.rows else None,
            slide=one.slide,
        )
        for one in passages
    ]


def _beginning(document: ParsedDocument) -> tuple[ParsedDocument, bool]:
    if len(document.text) <= TRIAL_CHARS:
        return document, True
    blocks = tuple(block for block in document.blocks if block.end <= TRIAL_CHARS)
    end = blocks[-1].end if blocks else 0
    return replace(document, text=document.text[:end], blocks=blocks), False
