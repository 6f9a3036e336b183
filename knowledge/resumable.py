"""Uploads in pieces: how many bytes may wait, where they lie, and when they become a document or go.

The protocol of the doors is tus 1.0; this module knows nothing of it. A piece is kept as a part named by where it
begins, and counts once the row says so: an upload goes on after a reload, a lost connection or a restart of the
server, whichever process answers. The last piece and the intake of the whole file are one transaction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet, Sum
from django.utils import timezone

from knowledge import archive, intake
from knowledge.access import visible_uploads
from knowledge.details import Details
from knowledge.ingestion.parsers import BY_EXTENSION
from knowledge.ingestion.sniff import extension_of, sniff_start
from knowledge.models import KnowledgeBase, Upload
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound, TooLarge, TooMany
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

_CREATE_LOCK = 0x0F11E
# Errors that waiting cures: the upload stays open, and its last piece may be sent again.
_LATER = frozenset({"revision_open", "upload_race"})
_BLOCK = 1 << 20


def begin(
    principal: Principal,
    base: KnowledgeBase,
    *,
    path: str,
    length: int,
    folder: str = "",
    same_name: intake.SameName = "revision",
    review: bool = False,
    fingerprint: str = "",
    is_sheet: bool = False,
    details: Details = intake.NO_DETAILS,
) -> Upload:
    """Open an upload of `length` bytes into a base the asker may edit.

    What its name and size already rule out is refused here. Raises `Invalid` (empty_file, unsupported_type),
    `TooLarge`, `TooMany` (uploads_waiting: this person's, or everybody's, open uploads hold all there is room for).
    """
    name = intake.clean_path(path)[1]
    if length <= 0:
        raise Invalid("%(name)s is empty.", code="empty_file", name=name)
    intake.refuse_by_size(name, length)
    if extension_of(name) and extension_of(name) not in BY_EXTENSION:
        raise Invalid("This type of file can not be read.", code="unsupported_type")
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Two uploads that begin at once must not both take the last room.
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATE_LOCK])
        _refuse_without_room(principal, length)
        return Upload.objects.create(
            base=base,
            created_by_id=principal.user_id,
            path=path[:1000],
            folder=folder[:800],
            same_name=same_name,
            review=review,
            is_sheet=is_sheet,
            options=json_safe(details.as_json),
            fingerprint=fingerprint[:300],
            length=length,
            expires_at=_expiry(),
        )


def begin_archive(
    principal: Principal, *, path: str, length: int, name: str = "", embedding: str = "", fingerprint: str = ""
) -> Upload:
    """Open an upload of the file of an export, of which a new base is made when it is complete.

    Raises what `archive.refuse_import` raises, `Invalid` (not_an_archive), and `TooMany` as `begin`.
    """
    file_name = intake.clean_path(path)[1]
    archive.refuse_import(principal, file_name, length)
    if length <= 0 or extension_of(file_name) != "zip":
        raise archive.no_archive()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CREATE_LOCK])
        _refuse_without_room(principal, length, least=settings.ARCHWAY["MAX_IMPORT_BYTES"])
        return Upload.objects.create(
            workspace_id=principal.workspace_id,
            created_by_id=principal.user_id,
            path=path[:1000],
            options=json_safe({"name": name[:190], "embedding": embedding[:16]}),
            fingerprint=fingerprint[:300],
            length=length,
            expires_at=_expiry(),
        )


def _expiry() -> datetime:
    return timezone.now() + timedelta(hours=settings.ARCHWAY["UPLOAD_HOURS"])


def _refuse_without_room(principal: Principal, length: int, *, least: int = 0) -> None:
    """`least`: what fits into it alone is taken, though the room of a person is smaller."""
    waiting = Upload.objects.filter(state=Upload.State.OPEN, expires_at__gt=timezone.now())
    total = waiting.aggregate(bytes=Sum("length"))["bytes"] or 0
    own = waiting.filter(created_by_id=principal.user_id).aggregate(bytes=Sum("length"))["bytes"] or 0
    room = max(settings.ARCHWAY["OPEN_UPLOAD_BYTES"], least)
    if own + length > room or total + length > settings.ARCHWAY["ALL_UPLOAD_BYTES"]:
        raise TooMany(
            "Too much is being uploaded already; finish or discard an upload that is under way.",
            code="uploads_waiting",
            retry_after=60,
        )


def find(principal: Principal, uid: str) -> Upload:
    """An upload of the asker's own that they may still go on with. Raises `NotFound`."""
    upload = visible_uploads(principal).select_related("base", "document", "archive").filter(uid=uid).first()
    if upload is None or upload.expires_at <= timezone.now():
        raise NotFound("Not found, or you don't have access.")
    return upload


def still_open(uploads: QuerySet[Upload]) -> QuerySet[Upload]:
    """Those that can be gone on with, newest first."""
    return uploads.filter(state=Upload.State.OPEN, is_sheet=False, expires_at__gt=timezone.now()).order_by("-id")


def hold(principal: Principal, base: KnowledgeBase, path: Path, name: str, folder: str, same_name: str) -> Upload:
    """Keep a whole file between the preview of a sheet of questions and its import; swept like every upload."""
    size = path.stat().st_size
    upload = begin(
        principal,
        base,
        path=name,
        length=size,
        folder=folder,
        same_name=same_name,  # type: ignore[arg-type]
        is_sheet=True,
    )
    with path.open("rb") as stream, transaction.atomic():
        row = _locked(upload)
        row.parts, row.offset = [_write_part(row, iter(lambda: stream.read(_BLOCK), b""))], size
        row.save(update_fields=["parts", "offset"])
    return row


def held(principal: Principal, uid: str) -> Upload:
    """A file that `hold` keeps for the asker. Raises `NotFound`."""
    upload = find(principal, uid)
    if not upload.is_sheet or upload.state != Upload.State.OPEN:
        raise NotFound("Not found, or you don't have access.")
    return upload


def contents(upload: Upload) -> AbstractContextManager[Path]:
    """The bytes of an upload as a local file, for as long as the block lasts."""
    return _assembled(upload)


def append(principal: Principal, upload: Upload, offset: int, blocks: Iterable[bytes]) -> Upload:
    """Add the bytes that begin at `offset`; the last ones make the file a document, or queue its import as a base.

    Raises `Conflict` (offset_mismatch: another piece is expected; upload_busy: one is being written right now;
    upload_over), `TooLarge` (past the announced length) and whatever `intake.receive` or `archive.start_import` says of
    the whole file.
    """
    refusal: ArchwayError | None = None
    with transaction.atomic():
        row = _locked(upload)
        if row.state != Upload.State.OPEN or row.is_sheet:
            raise Conflict("This upload has ended already.", code="upload_over")
        if row.offset != offset:
            raise Conflict(
                "The upload stands at byte %(offset)s; go on from there.", code="offset_mismatch", offset=row.offset
            )
        size = _write_part(row, blocks)
        if size:
            row.parts.append(size)
            row.offset += size
            row.expires_at = _expiry()
        try:
            if offset == 0 and size:
                _refuse_by_start(row)
            if row.offset == row.length:
                _take_in(principal, row)
        except ArchwayError as error:
            if error.code in _LATER:
                raise
            refusal = error
            _note_refusal(row, error)
        row.save()
        if row.state != Upload.State.OPEN:
            names = _part_names(row)
            transaction.on_commit(lambda: _delete(names), robust=True)
    if refusal is not None:
        raise refusal
    return row


def _locked(upload: Upload) -> Upload:
    try:
        with transaction.atomic():
            row = Upload.objects.select_for_update(nowait=True, of=("self",)).select_related("base").get(pk=upload.pk)
    except OperationalError as error:
        raise Conflict("Another piece of this upload is being written right now.", code="upload_busy") from error
    except Upload.DoesNotExist as error:
        raise NotFound("Not found, or you don't have access.") from error
    return row


def _part_name(upload: Upload, start: int) -> str:
    return f"partial/{upload.uid}/{start:015d}"


def _part_names(upload: Upload) -> list[str]:
    """The parts that the row knows, and the one that a process may have left when it was killed."""
    names, start = [], 0
    for size in upload.parts:
        names.append(_part_name(upload, start))
        start += size
    return [*names, _part_name(upload, start)]


def _delete(names: Iterable[str]) -> None:
    for name in names:
        default_storage.delete(name)
    for folder in {name.rpartition("/")[0] for name in names}:
        # Object stores have no folders; a file system keeps an empty one.
        with suppress(NotImplementedError, OSError):
            Path(default_storage.path(folder)).rmdir()


def _write_part(row: Upload, blocks: Iterable[bytes]) -> int:
    """Keep the bytes as the next part; returns how many. More than was announced are refused, and none kept."""
    room, size = row.length - row.offset, 0
    with tempfile.TemporaryFile(prefix="archway-part-") as spool:
        for block in blocks:
            size += len(block)
            if size > room:
                raise TooLarge("More bytes came than the upload announced.", code="past_length")
            spool.write(block)
        if size:
            spool.seek(0)
            name = _part_name(row, row.offset)
            default_storage.delete(name)  # what a process wrote that was killed before the row said so
            default_storage.save(name, File(spool))
    return size


def _refuse_by_start(row: Upload) -> None:
    with _assembled(row, limit=64 * 1024) as path:
        if row.base is None:
            with path.open("rb") as stream:
                if stream.read(4) != b"PK\x03\x04":
                    raise archive.no_archive()
            return
        sniff_start(path, intake.clean_path(row.path)[1])


def _take_in(principal: Principal, row: Upload) -> None:
    with _assembled(row) as path:
        if row.base is None:
            row.archive = archive.start_import(principal, path, intake.clean_path(row.path)[1], **row.options)
            row.state, row.outcome = Upload.State.DONE, "import"
            return
        received = intake.receive(
            principal,
            row.base,
            path,
            row.path,
            folder=row.folder,
            same_name=row.same_name,  # type: ignore[arg-type]
            review=row.review,
            details=Details.checked(row.options.get("tags", ()), row.options.get("metadata", {})),
        )
    row.state, row.outcome, row.document = Upload.State.DONE, received.status, received.document


def _note_refusal(row: Upload, error: ArchwayError) -> None:
    row.state = Upload.State.REFUSED
    row.error_code, row.error_message = error.code[:40], error.message
    row.error_params = json_safe({key: str(value) for key, value in error.params.items()})
    if isinstance(error, intake.Duplicate):
        row.document = error.document


class _assembled:  # noqa: N801  (used like a function)
    """The bytes so far as one local file, gone again at the end; `limit` takes only the first ones."""

    def __init__(self, row: Upload, limit: int | None = None) -> None:
        self._row, self._limit = row, limit

    def __enter__(self) -> Path:
        with tempfile.NamedTemporaryFile(prefix="archway-whole-", delete=False) as whole:
            self._path = Path(whole.name)
            left = self._limit if self._limit is not None else self._row.length
            for block in self._blocks():
                whole.write(block[:left])
                left -= len(block)
                if left <= 0:
                    break
        return self._path

    def _blocks(self) -> Iterator[bytes]:
        for name in _part_names(self._row)[:-1]:
            with default_storage.open(name, "rb") as part:
                while block := part.read(_BLOCK):
                    yield block

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)


def discard(upload: Upload) -> None:
    """Forget an upload and its bytes, whatever its state; the document that it became stays."""
    with transaction.atomic():
        row = _locked(upload)
        names = _part_names(row)
        row.delete()
        transaction.on_commit(lambda: _delete(names), robust=True)


def sweep(limit: int = 200) -> int:
    """Forget the uploads whose time is over; returns how many."""
    swept = 0
    for upload in Upload.objects.filter(expires_at__lte=timezone.now())[:limit]:
        with suppress(Conflict, NotFound):  # one that is being written moves its own end
            discard(upload)
            swept += 1
    return swept
