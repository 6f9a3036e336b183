"""A new base from an archive that was checked. It is hidden until it is complete; what is broken off leaves nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from knowledge import base_settings, bases, lifecycle, statistics, storage
from knowledge.archive.contract import Building
from knowledge.archive.manifest import Manifest
from knowledge.archive.parts import PARTS
from knowledge.archive.reading import records
from knowledge.ingestion.parsers.archive import Archive as Zip
from knowledge.models import Archive, Document, Grant, KnowledgeBase, Revision, Role
from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.endpoints import embedding_endpoint, visible_endpoints
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel import audit
from portal.kernel.models import bump_acl
from portal.kernel.principal import Principal

Told = Callable[[int], None]
# Names of stored files are written down before the files, so many at a time.
_NOTED = 50


@dataclass(slots=True)
class Keeping:
    """Files of the archive on their way into the storage: each once, its name noted before it is written."""

    zip: Zip
    note: Callable[[list[str]], None]
    stored: dict[str, str] = field(default_factory=dict)
    _free: list[str] = field(default_factory=list)

    def store(self, name: str) -> str:
        """Keep a file of the archive; returns its stored name."""
        if name in self.stored:
            return self.stored[name]
        if not self._free:
            self._free = [storage.new_name() for _ in range(_NOTED)]
            self.note(self._free)
        with tempfile.TemporaryDirectory(prefix="archway-import-") as folder:
            path = Path(folder) / "file"
            with self.zip.open(name) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target, 256 * 1024)
            self.stored[name] = storage.save_file(path, self._free.pop())
        return self.stored[name]


def endpoint_for(principal: Principal, manifest: Manifest, wanted: str) -> ModelEndpoint:
    """The wanted endpoint; else one with the archive's model, so that its vectors can be used; else the default."""
    if wanted:
        return embedding_endpoint(principal, wanted)
    ensure_local_endpoint()
    usable = list(visible_endpoints(principal, ModelEndpoint.Kind.EMBEDDING).select_related("space"))
    key = manifest.embedding.key if manifest.embedding else ""
    same = [endpoint for endpoint in usable if endpoint.space is not None and endpoint.space.key == key]
    return (same or usable)[0]


def usable_space(endpoint: ModelEndpoint, manifest: Manifest) -> EmbeddingSpace | None:
    """The space of the archive's vectors when the base's model fills it; None: all is embedded anew."""
    entry, space = manifest.embedding, endpoint.space
    if entry is None or space is None or manifest.part("vectors") is None:
        return None
    same = space.key == entry.key and space.dimensions == entry.dimensions
    return space if same else None


@transaction.atomic
def hidden_base(principal: Principal, archive: Archive, manifest: Manifest) -> KnowledgeBase:
    """A base that nobody sees, with the archive's settings. Its name is free at this moment."""
    wanted = archive.options.get("name") or manifest.base.name
    base = KnowledgeBase.objects.create(
        workspace_id=principal.workspace_id,
        name=bases.free_name(principal, wanted),
        description=manifest.base.description,
        sensitive=manifest.base.sensitive,
        config=base_settings.read(manifest.base.config).model_dump(mode="json"),
        embedding=endpoint_for(principal, manifest, archive.options.get("embedding", "")),
        created_by_id=principal.user_id,
        deleted_at=timezone.now(),
    )
    Archive.objects.filter(pk=archive.pk).update(base=base)
    archive.base = base
    return base


def build(zip_file: Zip, building: Building, manifest: Manifest, told: Told) -> None:
    """All parts, in order, and what is searched at once. Raises `Invalid` and what storage raises."""
    done = 0
    for part in PARTS:
        entry = manifest.part(part.name)
        if entry is None:
            continue

        def counted(rows: Iterator[Any]) -> Iterator[Any]:
            nonlocal done
            for row in rows:
                done += 1
                if done % 100 == 0:
                    told(done)
                yield row

        part.write(building, counted(records(zip_file, part)))
    _point_at_vectors(building, told, done)


def _point_at_vectors(building: Building, told: Told, done: int) -> None:
    """Revisions whose every leaf has its vector are searchable; of these, documents point to their current ones."""
    for place, pk in building.revisions.items():
        complete = building.space is not None and building.vectors[place] == building.leaves[place] > 0
        if building.states[place] != "indexed" or not complete:
            continue
        Revision.objects.filter(pk=pk).update(space=building.space, vectors_kept=True)
        if building.active[place.doc] == place.rev:
            Document.objects.filter(pk=building.documents[place.doc]).update(active_revision_id=pk)
            enabled = Document.objects.filter(pk=building.documents[place.doc], enabled=True).exists()
            if enabled:
                statistics.append(building.base.pk, pk, sign=1)
        told(done)


def to_queue(building: Building) -> tuple[list[int], list[int]]:
    """(revisions to embed, revisions to read): at most one of each document, the current one before a newer one."""
    embed, parse = [], []
    embedded = set()
    for place, pk in building.revisions.items():
        if building.states[place] == "indexed" and building.active[place.doc] == place.rev:
            complete = building.space is not None and building.vectors[place] == building.leaves[place] > 0
            if not complete:
                embed.append(pk)
                embedded.add(place.doc)
    for place, pk in building.revisions.items():
        if building.states[place] == "queued" and place.doc not in embedded:
            parse.append(pk)
    return embed, parse


@transaction.atomic
def publish(principal: Principal, building: Building, manifest: Manifest) -> KnowledgeBase:
    """Let the base be seen: one small transaction, with its owner, its audit entry and the work that is to be done."""
    base = KnowledgeBase.objects.select_for_update().get(pk=building.base.pk)
    embed, parse = to_queue(building)
    for pks, stage in ((embed, "embed"), (parse, "parse")):
        Revision.objects.filter(pk__in=pks).update(
            status=Revision.Status.PENDING, stage=stage, finished_at=None, queued_at=timezone.now()
        )
    base.name, base.deleted_at = bases.free_name(principal, base.name), None
    base.stamp += 1
    base.save(update_fields=["name", "deleted_at", "stamp"])
    Grant.objects.create(base=base, user_id=principal.user_id, role=Role.OWNER, created_by_id=principal.user_id)
    audit.record(
        principal,
        "base.import",
        base,
        base_ids=[base.pk],
        name=base.name,
        content_hash=manifest.content_hash,
        documents=len(building.documents),
        to_embed=len(embed),
        to_read=len(parse),
    )
    bump_acl(base.workspace_id)
    if embed or parse:
        lifecycle.wake()
    return base


def forget(archive: Archive) -> None:
    """Delete everything of an import that did not come to its end: rows and files."""
    row = Archive.objects.select_related("base").get(pk=archive.pk)
    if row.base is not None and row.base.deleted_at is not None:
        base = row.base
        Archive.objects.filter(pk=row.pk).update(base=None)
        drop_base(base)
    for name in row.kept_files:
        storage.delete_file(name)
    Archive.objects.filter(pk=row.pk).update(kept_files=[])


def drop_base(base: KnowledgeBase) -> None:
    """Delete a hidden base; revision by revision, because the database deletes their chunks itself."""
    Document.objects.filter(base=base).update(active_revision=None)
    for pk in list(Revision.objects.filter(base=base).values_list("pk", flat=True)):
        Revision.objects.filter(pk=pk).delete()
    base.delete()


def note_files(archive: Archive, names: list[str]) -> None:
    """Write down names of files before they are stored, so that they can be deleted whatever happens."""
    archive.kept_files = [*archive.kept_files, *names]
    Archive.objects.filter(pk=archive.pk).update(kept_files=archive.kept_files)
