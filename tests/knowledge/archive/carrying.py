"""Bases with something of everything in them, their archives, and archives that somebody has tampered with."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from knowledge import archive, background, documents, lifecycle, storage, tags
from knowledge.archive import jobs, writing
from knowledge.archive.contract import Reading
from knowledge.archive.manifest import BaseRecord, Manifest, PartEntry, content_hash
from knowledge.archive.parts import PARTS
from knowledge.archive.records import canonical
from knowledge.models import Archive, Chunk, Document, KnowledgeBase, PicturePlace, Revision, StoredImage
from knowledge.quality import cases
from portal.kernel.principal import Principal
from tests.support.people import World, indexed, put, work_through


def furnish(world: World) -> KnowledgeBase:
    """Alice's base: folders, tags, revisions, a disabled chunk and document, one that failed, one in the bin."""
    alice = world.principal(world.alice)
    policy = indexed(alice, world.base, "policy.md", "# Leave\n\nFive days a year.\n\n# Pay\n\nOn the 25th.\n", "hr")
    indexed(alice, world.base, "policy.md", "# Leave\n\nTen days a year.\n\n# Pay\n\nOn the 25th.\n", "hr")
    rows = "\n".join(f"P-{n:03},{n * 3}.50,华东" for n in range(120))
    indexed(alice, world.base, "prices.csv", f"part,price,region\n{rows}\n", "sales/2026")
    off = indexed(alice, world.base, "archiv-ü 手册.txt", "Old words that nobody needs.\n")
    documents.describe(alice, policy, tags=["HR", "2026"], review_date=date(2027, 1, 31))
    documents.set_enabled(alice, off, False)
    gone = indexed(alice, world.base, "gone.md", "# Gone\n\nNot carried along.\n")
    documents.delete(alice, gone)
    put(alice, world.base, "broken.md", "# Broken\n\nIt was.\n")
    Revision.objects.filter(document__name="broken.md").update(
        status="failed", error_code="damaged_file", error_stage="parsing", error_message="This file is damaged."
    )
    tags.create(alice, world.base, "unused")
    cases.add(
        alice, world.base, "How long is leave?", [cases.Target(policy, "Ten days", 3), cases.Target(None, "a year")]
    )
    cases.add(alice, world.base, "What is gone?", [cases.Target(gone)])
    current = Document.objects.get(pk=policy.pk).active_revision
    Chunk.objects.filter(revision=current, level="leaf", ordinal=1).update(enabled=False)
    assert current is not None
    picture(current)
    return KnowledgeBase.objects.get(pk=world.base.pk)


def picture(revision: Revision) -> None:
    """A picture with a thumbnail, in its place in the text."""
    image = StoredImage.objects.create(
        revision=revision,
        key=hashlib.sha256(b"large").hexdigest(),
        mime="image/png",
        alt="A valve",
        file=storage.save_bytes("images", b"large"),
        thumbnail=storage.save_bytes("images", b"small"),
        width=640,
        height=480,
        size=5,
    )
    PicturePlace.objects.create(revision=revision, image=image, start=3, end=9, page=1)
    PicturePlace.objects.create(revision=revision, image=None, start=3, end=9, recognised=True)


def exported(base: KnowledgeBase, path: Path, *, which: str = "all", vectors: bool = False) -> Manifest:
    """The base's archive at `path`, written in this very transaction."""
    fresh = KnowledgeBase.objects.select_related("embedding__space").get(pk=base.pk)
    return writing.write_archive(Reading(fresh, which, vectors), path)  # type: ignore[arg-type]


def imported(principal: Principal, path: Path, name: str = "") -> Archive:
    """The import of an archive, worked on in this process to its end, failed or not."""
    row = archive.start_import(principal, path, path.name, name=name)
    turn = background.claim(row)
    assert turn is not None
    jobs.run(turn)
    return Archive.objects.select_related("base").get(pk=row.pk)


def work_off(base: KnowledgeBase) -> None:
    """All work that waits in a base."""
    for revision in Revision.objects.filter(base=base, status__in=lifecycle.OPEN):
        work_through(revision)


def base_of(row: Archive) -> KnowledgeBase:
    """The base that an import made; fails with its reason when there is none."""
    assert row.status == Archive.Status.DONE, (row.error_code, row.error_message)
    assert row.base is not None
    return row.base


Entries = dict[str, bytes]


def tampered(source: Path, target: Path, change: Callable[[Entries], None]) -> Path:
    """A copy of an archive after `change` has worked on its entries."""
    with zipfile.ZipFile(source) as archive_file:
        entries = {name: archive_file.read(name) for name in archive_file.namelist()}
    change(entries)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive_file:
        for name, data in entries.items():
            archive_file.writestr(name, data)
    return target


def reseal(entries: Entries) -> None:
    """Make all hashes of a changed archive fit again, as somebody would who means harm."""
    manifest = json.loads(entries["manifest.json"])
    shapes = {part.name: part.shape for part in PARTS}
    for part in manifest["parts"]:
        lines = entries[f"{part['name']}.jsonl"].splitlines(keepends=True)
        counted = hashlib.sha256()
        for line in lines:
            fields = json.loads(line)
            kept = {key: value for key, value in fields.items() if key not in shapes[part["name"]].VOLATILE}
            counted.update(canonical(kept) + b"\n")
        part["records"] = len(lines)
        part["sha256"] = hashlib.sha256(b"".join(lines)).hexdigest()
        part["content"] = counted.hexdigest()
    manifest["blobs"] = sum(name.startswith(("files/", "images/", "parsed/")) for name in entries)
    base = BaseRecord.model_construct(**manifest["base"])
    parts = [PartEntry.model_construct(**part) for part in manifest["parts"]]
    manifest["content_hash"] = content_hash(base, parts)
    manifest["seal"] = hashlib.sha256(canonical({**manifest, "seal": ""})).hexdigest()
    entries["manifest.json"] = canonical(manifest)


def change_record(part: str, which: int, **fields: Any) -> Callable[[Entries], None]:
    """A change of one record of a part, with all hashes made to fit."""

    def change(entries: Entries) -> None:
        lines = entries[f"{part}.jsonl"].splitlines(keepends=True)
        record = {**json.loads(lines[which]), **fields}
        lines[which] = json.dumps(record).encode() + b"\n"
        entries[f"{part}.jsonl"] = b"".join(lines)
        reseal(entries)

    return change
