"""Pasted text: a title and some text become a document, and the same title again a new revision of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from knowledge import intake, lifecycle, storage
from knowledge.details import Details
from knowledge.models import Document, KnowledgeBase
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal

Format = Literal["markdown", "plain"]
EXTENSIONS: dict[Format, str] = {"markdown": "md", "plain": "txt"}
FORMATS: dict[str, Format] = {"text/markdown": "markdown", "text/plain": "plain"}
LONGEST = 500_000  # characters: in any writing a request takes them; what is longer is a file


@dataclass(frozen=True, slots=True)
class Editable:
    """A document's text as it can be edited, and the revision that it is."""

    title: str
    text: str
    kind: Format
    number: int


def paste(
    principal: Principal,
    base: KnowledgeBase,
    *,
    title: str,
    text: str,
    kind: Format = "markdown",
    folder: str = "",
    same_name: intake.SameName = "revision",
    details: Details = intake.NO_DETAILS,
) -> intake.Received:
    """Make or revise the document named by the title. Raises `Invalid` (title_missing, text_empty, text_too_long)."""
    name = name_of(title, kind)
    return _receive(principal, base, name, text, folder, same_name, details)


def name_of(title: str, kind: Format) -> str:
    """The name of the document that a title makes; an extension that people wrote themselves stays."""
    extension = EXTENSIONS[kind]
    plain = intake.clean_path(title.replace("/", "∕").replace("\\", "∕"))[1] if title.strip() else ""
    if not plain or not plain.strip(". ∕"):
        raise Invalid("Give the text a title.", code="title_missing")
    plain = plain.rstrip(". ")
    return plain if plain.lower().endswith(f".{extension}") else f"{plain}.{extension}"


def _receive(
    principal: Principal,
    base: KnowledgeBase,
    name: str,
    text: str,
    folder: str,
    same_name: intake.SameName,
    details: Details = intake.NO_DETAILS,
) -> intake.Received:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    if not text.strip():
        raise Invalid("Write or paste some text.", code="text_empty")
    if len(text) > LONGEST:
        raise Invalid(
            "The text is longer than %(limit)s characters; upload it as a file.", code="text_too_long", limit=LONGEST
        )
    with tempfile.TemporaryDirectory(prefix="archway-text-") as place:
        path = Path(place) / "text"
        # A mark at the start keeps short texts from being taken for another encoding.
        path.write_text(text, encoding="utf-8-sig", errors="replace")
        return intake.receive(principal, base, path, name, folder=folder, same_name=same_name, details=details)


def editable(document: Document) -> Editable | None:
    """The newest text of a document that people may edit here; None for other types, and for very long ones."""
    newest = document.revisions.order_by("-number").first()
    if newest is None or newest.mime not in FORMATS or newest.size > 4 * LONGEST:
        return None
    with storage.open_file(newest.file) as stream:
        try:
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            return None  # saving would change every character of it
    if len(text) > LONGEST:
        return None
    title = document.name.removesuffix(f".{EXTENSIONS[FORMATS[newest.mime]]}")
    return Editable(title, text, FORMATS[newest.mime], newest.number)


def edit(principal: Principal, document: Document, text: str, *, number: int) -> intake.Received:
    """Make an edited text the next revision. Raises `Conflict` (text_changed) when `number` is not the newest any more.

    The same text again changes nothing.
    """
    newest = document.revisions.order_by("-number").first()
    if newest is None or newest.mime not in FORMATS:
        raise Invalid("Only Markdown and plain text can be edited here.", code="not_editable")
    if newest.number != number:
        raise Conflict("Somebody has changed this text meanwhile; look at it again.", code="text_changed")
    if newest.status in lifecycle.OPEN:
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=document.name,
        )
    return _receive(principal, document.base, document.name, text, document.folder, "revision")
