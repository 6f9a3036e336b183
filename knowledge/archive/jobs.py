"""Exports and imports as long work: started by a person, done by a worker, fetched or forgotten afterwards."""

from __future__ import annotations

import logging
import tempfile
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.http import FileResponse
from django.utils import timezone
from django.utils.text import get_valid_filename

from knowledge import background, storage
from knowledge.access import visible_bases
from knowledge.archive import building, reading, writing
from knowledge.archive.contract import Building, Reading, Revisions
from knowledge.archive.manifest import Manifest
from knowledge.files import guarded
from knowledge.ingestion.parsers.archive import Archive as Zip
from knowledge.models import Archive, KnowledgeBase, Role
from portal.kernel import audit, notify
from portal.kernel.errors import ArchwayError, Conflict, Denied, Invalid, NotFound, TooLarge
from portal.kernel.models import User, json_safe
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

Kind, Status = Archive.Kind, Archive.Status
# So many at once on all workers together: each reads or writes a whole base.
AT_ONCE = 2
_LOOK_EVERY = 0.5


def estimate(base: KnowledgeBase, which: Revisions, *, vectors: bool) -> dict[str, int]:
    """What an export would hold, by part, with about its `bytes`, and how many documents are `unfinished`."""
    return writing.estimate(Reading(base, which, vectors))


@transaction.atomic
def start_export(
    principal: Principal, base: KnowledgeBase, *, which: Revisions = "all", vectors: bool = False
) -> Archive:
    """Queue an export of a base that the asker manages. Raises `Conflict` (export_running)."""
    KnowledgeBase.objects.select_for_update(no_key=True).get(pk=base.pk)
    if Archive.objects.filter(base=base, kind=Kind.EXPORT, status__in=Archive.OPEN).exists():
        raise Conflict("An export of this base is running already.", code="export_running")
    archive = Archive.objects.create(
        **background.as_asked_by(principal),
        kind=Kind.EXPORT,
        base=base,
        options={"revisions": which, "vectors": vectors},
        total=writing.steps_of(Reading(base, which, vectors)),
        file_name=f"{get_valid_filename(base.name)[:80] or 'base'}-{timezone.localdate():%Y%m%d}.zip",
    )
    audit.record(
        principal, "base.export", base, base_ids=[base.pk], archive=archive.uid, revisions=which, vectors=vectors
    )
    background.wake(archive)
    return archive


def start_import(
    principal: Principal, path: Path, file_name: str, *, name: str = "", embedding: str = "", wake: bool = True
) -> Archive:
    """Take an archive from `path` (thrown away by the caller) and queue its import into a new base.

    Its manifest is read at once, so that a file of another kind is refused at the door. Without `wake` the caller
    does the work. Raises `Invalid`, `TooLarge`, `Denied`.
    """
    size = path.stat().st_size
    refuse_import(principal, file_name, size)
    with reading.opened(path) as zip_file:
        manifest = reading.read_manifest(zip_file)
    stored = storage.save_file(path, storage.new_name("imports"))
    with transaction.atomic():
        archive = Archive.objects.create(
            **background.as_asked_by(principal),
            kind=Kind.IMPORT,
            options=json_safe({"name": " ".join(name.split())[:200], "embedding": embedding}),
            summary=summary_of(manifest),
            total=2 * sum(part.records for part in manifest.parts) + manifest.blobs,
            file=stored,
            file_name=str(json_safe(file_name))[:300],
            size=size,
        )
        audit.record(principal, "archive.upload", archive, file=archive.file_name, content_hash=manifest.content_hash)
        if wake:
            background.wake(archive)
    return archive


def refuse_import(principal: Principal, file_name: str, size: int) -> None:
    """What rules an import out before its bytes are looked at. Raises `Denied` and `TooLarge`."""
    principal.require("kb:manage")
    if principal.base_ids is not None:
        raise Denied("A key that is limited to some bases can not make new ones.", code="key_narrowed")
    limit = settings.ARCHWAY["MAX_IMPORT_BYTES"]
    if size > limit:
        raise TooLarge("%(name)s is larger than the limit of %(limit)s MB.", name=file_name, limit=limit >> 20)


def summary_of(manifest: Manifest) -> dict[str, Any]:
    """What people are told of an archive."""
    return {
        "name": manifest.base.name,
        "content_hash": manifest.content_hash,
        "revisions": manifest.revisions,
        "counts": {part.name: part.records for part in manifest.parts},
        "model": manifest.embedding.model if manifest.embedding else "",
        "exported_at": manifest.exported_at,
    }


# -- the worker ------------------------------------------------------------------------------------


def work(archive_id: int) -> None:
    """Do an export or import to its end. Does nothing when somebody else is at it, or enough of them run."""
    row = Archive.objects.filter(pk=archive_id).first()
    if row is None or background.count_of_running(Archive) >= AT_ONCE:
        return
    turn = background.claim(row)
    if turn is not None:
        run(turn)


def run(turn: background.Turn[Archive]) -> Archive:
    """The claimed work, and what its errors mean for the row."""
    archive = Archive.objects.select_related("base", "created_by").get(pk=turn.work.pk)
    turn.work = archive
    try:
        principal = background.asker_of(archive)
        if archive.kind == Kind.EXPORT:
            _export(turn, principal)
        else:
            _import(turn, principal)
    except background.Stopped:
        _give_up(archive, Status.CANCELLED, None)
    except ArchwayError as error:
        if error.code != "claim_lost":
            _give_up(archive, Status.FAILED, error)
    except Exception:  # the edge of the task: the person must be told, whatever it was
        logger.exception("archive %s broke", archive.uid)
        _give_up(archive, Status.FAILED, ArchwayError("Something went wrong; try it again.", code="internal_error"))
    return archive


def _export(turn: background.Turn[Archive], principal: Principal) -> None:
    archive = turn.work
    base = (
        visible_bases(principal, Role.OWNER).filter(pk=archive.base_id or 0).select_related("embedding__space").first()
    )
    if base is None:
        raise NotFound("Not found, or you don't have access.")
    job = Reading(base, archive.options["revisions"], archive.options["vectors"])
    with tempfile.TemporaryDirectory(prefix="archway-export-") as folder:
        path = Path(folder) / "archive.zip"
        manifest = _in_snapshot(turn, job, path)
        stored = storage.save_file(path, storage.new_name("exports"))
        size = path.stat().st_size
    expires = timezone.now() + timedelta(hours=settings.ARCHWAY["EXPORT_HOURS"])
    ended = background.end(
        archive,
        Status.DONE,
        file=stored,
        size=size,
        summary=summary_of(manifest),
        expires_at=expires,
        done=archive.total,
    )
    if not ended:
        storage.delete_file(stored)
        return
    _tell(archive, "export.done", base, f"/bases/{base.uid}/archive/", hours=settings.ARCHWAY["EXPORT_HOURS"])


def _in_snapshot(turn: background.Turn[Archive], job: Reading, path: Path) -> Manifest:
    """Write the archive in a thread of its own, whose transaction sees one moment of the database.

    This thread tells how far it is, on its own connection: within the snapshot nobody would see it.
    """
    seen, stop = [0], threading.Event()

    def told(done: int) -> None:
        seen[0] = done
        if stop.is_set():
            raise background.Stopped("Cancelled.")

    def write() -> Manifest:
        try:
            return write_snapshot(job, path, told)
        finally:
            connection.close()

    told_last = -1
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="export") as pool:
        future = pool.submit(write)
        try:
            while not wait([future], _LOOK_EVERY).done:
                # No step, no sign of life: a thread that hangs must not look alive.
                if seen[0] != told_last:
                    told_last = seen[0]
                    turn.at(min(told_last, turn.work.total), always=True)
        finally:
            stop.set()
        return future.result()


def write_snapshot(job: Reading, path: Path, told: Callable[[int], None]) -> Manifest:
    """The archive of a base as it is at one moment. Must not be called in a transaction."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            parts = writing.write_parts(job, archive, told)
        return writing.finish_archive(job, archive, parts, told)


def _import(turn: background.Turn[Archive], principal: Principal) -> None:
    archive = turn.work
    building.forget(archive)
    archive.refresh_from_db()
    principal.require("kb:manage")
    with storage.local_copy(archive.file) as path:
        with reading.opened(path) as zip_file:
            manifest = reading.check(zip_file, turn.at)
        # Opened again: what was unpacked while checking does not count twice.
        with reading.opened(path) as zip_file:
            base = _build(turn, principal, zip_file, manifest)
    _delete_upload(archive)
    _tell(archive, "import.done", base, f"/bases/{base.uid}/documents/")


def _build(turn: background.Turn[Archive], principal: Principal, zip_file: Zip, manifest: Manifest) -> KnowledgeBase:
    """The new base, published together with the end of the work."""
    archive = turn.work
    base = building.hidden_base(principal, archive, manifest)

    def note(names: list[str]) -> None:
        building.note_files(archive, names)

    keeping = building.Keeping(zip_file, note)
    job = Building(
        base=base,
        user_id=principal.user_id,
        space=building.usable_space(base.embedding, manifest),
        store=keeping.store,
        blob=zip_file.read,
        note=note,
    )
    checked = sum(part.records for part in manifest.parts) + manifest.blobs
    building.build(zip_file, job, manifest, lambda done: turn.at(checked + done))
    turn.at(archive.total, always=True)
    with transaction.atomic():
        base = building.publish(principal, job, manifest)
        if not background.end(archive, Status.DONE, base=base, kept_files=[], done=archive.total):
            raise Conflict("Another worker took this over.", code="claim_lost")
    return base


def _delete_upload(archive: Archive) -> None:
    storage.delete_file(archive.file)
    Archive.objects.filter(pk=archive.pk).update(file="")


def _give_up(archive: Archive, status: Archive.Status, error: ArchwayError | None) -> None:
    with transaction.atomic():
        if not background.end(archive, status, error):
            return
        bases = [archive.base_id] if archive.kind == Kind.EXPORT and archive.base_id else []
        audit.record(
            None,
            f"{archive.kind}.{status}",
            archive,
            workspace_id=archive.workspace_id,
            base_ids=bases,
            reason=error.code if error else "",
        )
    if archive.kind == Kind.IMPORT:
        building.forget(archive)
        _delete_upload(archive)
    if status == Status.FAILED and error is not None:
        base = archive.base if archive.kind == Kind.EXPORT else None
        params = json_safe({key: str(value) for key, value in error.params.items()})
        link = f"/bases/{base.uid}/archive/" if base else "/imports/"
        name = base.name if base else archive.file_name
        _tell(archive, f"{archive.kind}.failed", base, link, name=name, reason=error.message, reason_params=params)


def _tell(archive: Archive, kind: str, base: KnowledgeBase | None, link: str, **params: Any) -> None:
    named: dict[str, Any] = {"base": base.name} if base else {}
    notify.tell(
        User.objects.filter(pk=archive.created_by_id or 0, is_active=True),
        kind,
        workspace_id=archive.workspace_id,
        base_ids=[base.pk] if base else [],
        link=link,
        **named,
        **params,
    )


# -- afterwards --------------------------------------------------------------------------------------


def download(principal: Principal, archive: Archive) -> FileResponse:
    """The file of a finished export, streamed. Raises `NotFound` once its time is over."""
    if archive.kind != Kind.EXPORT or archive.status != Status.DONE or not archive.file or is_over(archive):
        raise NotFound("This export is no longer kept; start a new one.", code="export_expired")
    audit.record(principal, "base.export_fetched", archive, base_ids=[archive.base_id or 0], file=archive.file_name)
    response = FileResponse(
        storage.open_file(archive.file),
        as_attachment=True,
        filename=archive.file_name,
        content_type="application/zip",
    )
    return guarded(response)


def is_over(archive: Archive) -> bool:
    """Whether the time is over for which an export is kept."""
    return archive.expires_at is not None and archive.expires_at <= timezone.now()


@transaction.atomic
def delete(principal: Principal, archive: Archive) -> None:
    """Delete the file of a finished export before its time."""
    row = Archive.objects.select_for_update(of=("self",)).get(pk=archive.pk)
    if row.is_open or row.kind != Kind.EXPORT:
        raise Invalid("Only a finished export can be deleted.", code="not_deletable")
    audit.record(principal, "base.export_deleted", row, base_ids=[row.base_id or 0])
    _drop_file(row)


def forget_expired() -> int:
    """Delete the files of exports whose time is over; returns how many."""
    over = list(Archive.objects.filter(kind=Kind.EXPORT, expires_at__lt=timezone.now()).exclude(file="")[:100])
    for row in over:
        _drop_file(row)
    return len(over)


def _drop_file(row: Archive) -> None:
    name = row.file
    Archive.objects.filter(pk=row.pk).update(file="", expires_at=timezone.now())
    if name:
        transaction.on_commit(lambda: storage.delete_file(name), robust=True)
