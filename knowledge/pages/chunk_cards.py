"""What one passage shows on the page of chunks, and what its opened panel needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from knowledge import base_settings
from knowledge.chunks import history, shaping
from knowledge.ingestion.split.handmade import places_to_cut
from knowledge.ingestion.store import searchable_text
from knowledge.ingestion.transformations import settings_of
from knowledge.models import Chunk, ChunkQuestion, ChunkVersion, Revision
from knowledge.pages.comparing import Change, word_changes
from knowledge.pages.picture_strips import Strip, strips
from knowledge.questions import verbs as questions
from portal.gateway.embedding import counter_for

PANELS = ("edit", "split", "history", "leaves", "add", "leaf", "first", "questions")
MOST_PLACES = 120
_BEGINNING = 110


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage could be cut, and how the second one would begin."""

    position: int
    begins: str


@dataclass(frozen=True, slots=True)
class LeafLine:
    """One leaf: what stands in the passage, and what words and vectors are made of."""

    row: Chunk
    own: str
    searched: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version with what it changed against the one before it."""

    row: ChunkVersion
    changes: tuple[Change, ...]
    is_current: bool


@dataclass(slots=True)
class Opened:
    """Which passage has which panel open, what was typed into it and what was wrong with that."""

    chunk: int = 0
    panel: str = ""
    leaf: int = 0
    problem: str = ""
    typed: str | None = None


@dataclass(slots=True)
class Card:
    """One passage of the list."""

    chunk: Chunk
    panel: str = ""
    problem: str = ""
    text: str = ""
    rows: int = 4
    places: list[Place] = field(default_factory=list)
    versions: list[VersionLine] = field(default_factory=list)
    leaves: list[LeafLine] = field(default_factory=list)
    leaf: LeafLine | None = None
    pictures: Strip | None = None
    questions: list[ChunkQuestion] = field(default_factory=list)


def cards(revision: Revision, chunks: list[Chunk], opened: Opened) -> list[Card]:
    """The cards of one page, one of them perhaps with an open panel."""
    found = [_opened_card(revision, chunk, opened) if chunk.pk == opened.chunk else Card(chunk) for chunk in chunks]
    pictures = strips(revision, [(chunk.pk, chunk.start, chunk.end) for chunk in chunks])
    asked = questions.of_passages([chunk.pk for chunk in chunks])
    for card in found:
        card.questions = asked.get(card.chunk.pk, [])
        card.pictures = pictures.get(card.chunk.pk)
    return found


def _opened_card(revision: Revision, chunk: Chunk, opened: Opened) -> Card:
    card = Card(chunk, opened.panel, opened.problem, text=chunk.text)
    if opened.panel == "split":
        card.places = _places(revision, chunk)
    elif opened.panel == "history":
        card.versions = version_lines(chunk)
    elif opened.panel in ("leaves", "leaf"):
        card.leaves = leaf_lines(revision, chunk)
        card.leaf = next((line for line in card.leaves if line.row.pk == opened.leaf), None)
        card.text = card.leaf.own if card.leaf else card.text
    elif opened.panel in ("add", "questions"):
        card.text = ""
    if opened.typed is not None:
        card.text = opened.typed
    card.rows = min(24, max(4, card.text.count("\n") + len(card.text) // 70 + 2))
    return card


def _places(revision: Revision, chunk: Chunk) -> list[Place]:
    settings = settings_of(base_settings.read(revision.config).splitting)
    found = places_to_cut(chunk.text, counter_for(revision.document.base.embedding), settings)
    return [
        Place(position, " ".join(chunk.text[position : position + 2 * _BEGINNING].split())[:_BEGINNING])
        for position in found[:MOST_PLACES]
    ]


def leaf_lines(revision: Revision, chunk: Chunk) -> list[LeafLine]:
    """The leaves of a passage, in order."""
    state = history.state_of(chunk)
    rows = history.leaves_of(chunk)
    return [
        LeafLine(
            row,
            shaping.own_text(state, index),
            searchable_text(revision.document.name, chunk.heading_path, row.text),
        )
        for index, row in enumerate(rows)
    ]


def version_lines(chunk: Chunk) -> list[VersionLine]:
    """All versions, newest first."""
    lines = []
    before: ChunkVersion | None = None
    for row in history.versions_of(chunk):
        changes = word_changes(before.text, row.text) if before is not None and before.text != row.text else ()
        lines.append(VersionLine(row, changes, row.number == chunk.version))
        before = row
    return lines[::-1]


def opened_of(data: Any) -> Opened:
    """Which panel an address asks for: `?open=81&panel=edit&leaf=82`; nonsense opens nothing."""
    number, panel, leaf = data.get("open", ""), data.get("panel", ""), data.get("leaf", "")
    if not number.isdecimal() or len(number) > 18:
        return Opened()
    return Opened(
        int(number),
        panel if panel in PANELS else "",
        int(leaf) if leaf.isdecimal() and len(leaf) <= 18 else 0,
    )
