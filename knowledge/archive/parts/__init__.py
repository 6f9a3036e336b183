"""The table of parts, in the order in which they are read, checked and written: later ones name earlier ones' rows."""

from __future__ import annotations

from typing import Any

from knowledge.archive.contract import Part
from knowledge.archive.parts import (
    cases,
    chunks,
    documents,
    images,
    origins,
    places,
    questions,
    revisions,
    tags,
    terms,
    vectors,
    versions,
)

PARTS: tuple[Part[Any], ...] = (
    tags.PART,
    terms.PART,
    documents.PART,
    origins.PART,
    revisions.PART,
    images.PART,
    places.PART,
    chunks.PART,
    versions.PART,
    questions.PART,
    cases.PART,
    vectors.PART,
)
