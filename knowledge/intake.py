"""What may come in: size and type limits, duplicates, new document or new revision.

Nothing is kept of what is refused.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from knowledge import lifecycle, storage
from knowledge.details import Details
from knowledge.ingestion.convert import refuse_without_program
from knowledge.ingestion.parsers import BY_EXTENSION, file_type
from knowledge.ingestion.sniff import extension_of, sniff
from knowledge.models import Document, KnowledgeBase, Revision
from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Conflict, Invalid, TooLarge
from portal.kernel.principal import Principal

NO_DETAILS = Details()
SameName = Literal["revision", "keep_both", "skip"]
# Bytes. A file system takes 255 for a name (" (2)" must still fit), an index entry of PostgreSQL 2,704 in all.
LONGEST_NAME, LONGEST_FOLDER = 240, 740
# Controls, and the marks that turn text around: a name must not look like another one.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Received:
    """What became of one file."""

    status: Literal["created", "revision", "reactivated", "duplicate", "skipped"]
    document: Document
    revision: Revision | None


class Duplicate(Conflict):
    """The same bytes are in the base already; `document_uid` says where."""

    default_code = "duplicate"

    def __init__(self, document: Document) -> None:
        super().__init__("The same file is already here as %(name)s.", name=document.name)
        self.document = document


def clean_path(raw: str) -> tuple[str, str]:
    """(folder, name) for display and identity from the relative path of an upload.

    Separators of both kinds, `..`, controls and direction marks are taken out; the name is never
    empty. Nothing on disk is ever opened by it.
    """
    text = unicodedata.normalize("NFC", _HIDDEN.sub("", raw.replace("\\", "/")))
    parts = [part.strip() for part in text.split("/")]
    kept = [part for part in parts if part and part not in {".", ".."}]
    name = _shortened(kept[-1], LONGEST_NAME) if kept else "file"
    return _shortened("/".join(kept[:-1]), LONGEST_FOLDER, keep_suffix=False), name


def _shortened(text: str, limit: int, *, keep_suffix: bool = True) -> str:
    """At most `limit` bytes of UTF-8, cut between characters; what differs stays different, so it is marked."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    stem, dot, suffix = text.rpartition(".")
    tail = dot + suffix if keep_suffix and stem and len(suffix) < 20 else ""
    mark = f"~{hashlib.sha256(raw).hexdigest()[:8]}{tail}"
    return raw[: limit - len(mark.encode())].decode(errors="ignore").rstrip(" /") + mark


# What systems leave in folders by themselves: never meant when somebody hands over a folder.
JUNK: dict[str, list[str]] = {
    "names": ["thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"],
    "starts": [".", "~$"],
    "folders": ["__MACOSX", "$RECYCLE.BIN", "System Volume Information"],
}


def is_junk(path: str) -> bool:
    """Whether a file of a folder (its relative path) was left there by a system or is a program's lock."""
    *folders, name = path.replace("\\", "/").split("/")
    if name.lower() in JUNK["names"] or any(folder in JUNK["folders"] for folder in folders):
        return True
    return any(part.startswith(tuple(JUNK["starts"])) for part in (*folders, name))


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def receive(
    principal: Principal,
    base: KnowledgeBase,
    path: Path,
    raw_name: str,
    *,
    folder: str = "",
    same_name: SameName = "revision",
    review: bool = False,
    splitting: dict[str, Any] | None = None,
    details: Details = NO_DETAILS,
) -> Received:
    """Take one uploaded file (at `path`, thrown away by the caller) into a base the asker may edit.

    The same identity with other bytes becomes a new revision (or, by `same_name`, a second document or
    nothing); the bytes of an older revision make that one current again. With `review` it stops after
    splitting until somebody approves it, whatever the base says; `splitting` are settings of splitting for
    this document alone. `details` are added to what the document has. Raises `Duplicate`, `TooLarge`,
    `Invalid` (unsupported_type, type_mismatch, empty_file, …) or `Conflict` (revision_open).
    """
    inner, name = clean_path(raw_name)
    folder = clean_path(f"{folder}/{inner}/x")[0]
    size = path.stat().st_size
    if size == 0:
        raise Invalid("%(name)s is empty.", code="empty_file", name=name)
    if size > settings.ARCHWAY["MAX_UPLOAD_BYTES"]:
        raise _too_large(name, settings.ARCHWAY["MAX_UPLOAD_BYTES"])
    mime = sniff(path, name)
    refuse_without_program(mime, settings.ARCHWAY["SOFFICE"])
    if name[1:].lower() in BY_EXTENSION and name.startswith("."):  # ".pdf": the name is missing
        name = f"file.{file_type(mime).extensions[0]}"
    limit = file_type(mime).limit_mb * 1_048_576
    if size > limit:
        raise _too_large(name, limit)
    sha256 = digest_of(path)
    source_key = f"{folder}/{name}" if folder else name
    refuse_duplicate(base, sha256, source_key)
    if same_name == "skip":
        existing = _live(base, source_key)
        if existing is not None:
            return Received("skipped", existing, None)
    stored = storage.save_file(path)
    try:
        return _record(principal, base, stored, sha256, mime, size, folder, name, same_name, review, splitting, details)
    except IntegrityError as error:
        storage.delete_file(stored)
        raise Conflict("Somebody else is uploading %(name)s right now.", code="upload_race", name=name) from error
    except ArchwayError:
        storage.delete_file(stored)
        raise


def refuse_by_size(name: str, size: int) -> None:
    """Refuse what its name and size already rule out, before any byte has come. Raises `TooLarge`."""
    limit = settings.ARCHWAY["MAX_UPLOAD_BYTES"]
    promised = BY_EXTENSION.get(extension_of(name))
    if promised is not None:
        limit = min(limit, promised.limit_mb * 1_048_576)
    if size > limit:
        raise _too_large(name, limit)


def _too_large(name: str, limit: int) -> TooLarge:
    return TooLarge("%(name)s is larger than the limit of %(limit)s MB.", name=name, limit=limit // 1_048_576)


def _live(base: KnowledgeBase, source_key: str) -> Document | None:
    return Document.objects.filter(base=base, source_key=source_key, deleted_at__isnull=True).first()


def refuse_duplicate(base: KnowledgeBase, sha256: str, source_key: str) -> None:
    """The same bytes live in the base: as another document, or as what this one already is or is becoming."""
    same = (
        Revision.objects.filter(base=base, sha256=sha256, document__deleted_at__isnull=True)
        .select_related("document")
        .order_by("-number")
    )
    for revision in same:
        document = revision.document
        newest = document.revisions.order_by("-number").values_list("pk", flat=True).first()
        is_current = revision.pk in (document.active_revision_id, newest)
        if not is_current:
            continue
        failed = revision.status in lifecycle.RETRYABLE and document.active_revision_id != revision.pk
        if not failed or document.source_key != source_key:
            raise Duplicate(document)


@transaction.atomic
def _record(
    principal: Principal,
    base: KnowledgeBase,
    stored: str,
    sha256: str,
    mime: str,
    size: int,
    folder: str,
    name: str,
    same_name: SameName,
    review: bool,
    splitting: dict[str, Any] | None,
    details: Details,
) -> Received:
    # Two uploads of the same bytes at once: the second waits here and then sees the first.
    KnowledgeBase.objects.select_for_update(no_key=True).get(pk=base.pk)
    source_key = f"{folder}/{name}" if folder else name
    refuse_duplicate(base, sha256, source_key)
    document = _live(base, source_key)
    if document is not None and same_name == "keep_both":
        name, source_key = free_name(base, folder, name)
        document = None
    fields: dict[str, Any] = {"file": stored, "file_name": name, "sha256": sha256, "mime": mime, "size": size}
    fields |= {"review": review, "splitting": splitting}
    if document is None:
        document = Document.objects.create(
            base=base, source_key=source_key, folder=folder, name=name, created_by_id=principal.user_id
        )
        details.give(document, by=principal.user_id)
        revision = lifecycle.add_revision(document, created_by_id=principal.user_id, **fields)
        audit.record(principal, "document.create", document, base_ids=[base.pk], name=name, sha256=sha256)
        return Received("created", document, revision)
    _describe(principal, document, details)
    earlier = document.revisions.filter(sha256=sha256, status=Revision.Status.INDEXED).order_by("-number").first()
    if earlier is not None and earlier.vectors_kept:
        lifecycle.activate(principal, document, earlier)
        storage.delete_file(stored)
        return Received("reactivated", document, earlier)
    revision = lifecycle.add_revision(document, created_by_id=principal.user_id, **fields)
    Document.objects.filter(pk=document.pk).update(updated_at=timezone.now())
    audit.record(principal, "document.revise", document, base_ids=[base.pk], revision=revision.number, sha256=sha256)
    return Received("revision", document, revision)


def _describe(principal: Principal, document: Document, details: Details) -> None:
    before = {"tags": document.tags, "metadata": document.metadata}
    if details.give(document, by=principal.user_id):
        audit.record(principal, "document.describe", document, base_ids=[document.base_id], before=before)
        lifecycle.touch(document.base_id)


def free_name(base: KnowledgeBase, folder: str, name: str) -> tuple[str, str]:
    """(name, source key) with a number that makes the name free in its folder."""
    stem, dot, suffix = name.rpartition(".")
    if not dot:
        stem, suffix = name, ""
    number = 2
    while True:
        candidate = f"{stem} ({number}){dot}{suffix}"
        key = f"{folder}/{candidate}" if folder else candidate
        if _live(base, key) is None:
            return candidate, key
        number += 1
