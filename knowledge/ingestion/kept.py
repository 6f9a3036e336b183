"""What was read in a file, as it is kept between the stages of the work and for previews afterwards."""

from __future__ import annotations

from dataclasses import asdict

from knowledge import storage
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.split import TidyRules
from knowledge.models import Revision

# Raise it when the clean-up gives other output for the same text: kept outputs are then made anew.
TIDY_VERSION = 1


def parsed(revision: Revision) -> ParsedDocument | None:
    """The text that a revision's offsets point into, or None when it was not read yet (or was cleaned up)."""
    return _read(revision.parsed_key)


def as_read(revision: Revision) -> ParsedDocument | None:
    """The same before the clean-up rules of its splitting: what a preview of other rules begins with."""
    return _read(revision.raw_key)


def tidied_key(raw: str, rules: TidyRules) -> str:
    """The name of the kept text after clean-up; the parser's own while there is nothing to clean up."""
    return storage.output_key("tidied", TIDY_VERSION, raw, asdict(rules)) if rules else raw


def _read(key: str) -> ParsedDocument | None:
    kept = storage.read_output(key)
    return ParsedDocument.from_json(kept) if kept else None
