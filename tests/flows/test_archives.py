"""Real documents through real workers into an archive and out of it again; and large batches by a real worker."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from knowledge import archive, background, batches, documents, lifecycle
from knowledge.batches import Selection
from knowledge.models import Archive, Batch, ChunkVector, Document, KnowledgeBase, Revision, StoredImage
from knowledge.verification import verify
from portal.embedded import locations
from portal.kernel import keys
from portal.kernel.models import Notification
from tests.support.office_files import paragraph, word_file
from tests.support.people import World, put
from tests.support.running import PATIENCE, Running, until, worker

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def workers(environment: dict[str, str]) -> Iterator[list[Running]]:
    with (
        worker(environment, name="ingest", children=1) as ingesting,
        worker(environment, name="light", children=2, queue="default") as light,
    ):
        yield [ingesting, light]


def papers(world: World) -> KnowledgeBase:
    """A base of real files of several kinds, queued for the workers."""
    alice = world.principal(world.alice)
    put(alice, world.base, "rules.md", "# 年假\n\n员工每年享有十五天带薪年假。\n\n# Travel\n\nTrains only.\n", "hr")
    put(alice, world.base, "prices.csv", "part,price\n" + "".join(f"TH-{n:03},{n}.50\n" for n in range(200)))
    put(alice, world.base, "page.html", "<html><body><h1>Menu</h1><p>Soup on Mondays.</p></body></html>")
    put(alice, world.base, "letter.docx", letter())
    put(alice, world.base, "data.json", json.dumps({"door": "blue", "rooms": [1, 2, 3]}))
    return world.base


def letter() -> bytes:
    return word_file(paragraph("The valve is to be closed at night."))


def at_rest(base: KnowledgeBase) -> bool:
    return not Revision.objects.filter(base=base, status__in=lifecycle.OPEN).exists()


def ended(row: Archive) -> Archive | None:
    found = Archive.objects.select_related("base").get(pk=row.pk)
    return None if found.is_open else found


@pytest.mark.parametrize("vectors", [False, True], ids=["without vectors", "with vectors"])
def test_export_import_export_through_workers_gives_the_same_content_hash(
    world: World, workers: list[Running], tmp_path: Path, vectors: bool
) -> None:
    alice = world.principal(world.alice)
    base = papers(world)
    until(lambda: at_rest(base), "everything is indexed")
    documents.describe(alice, Document.objects.get(base=base, name="rules.md"), tags=["HR"])
    exporting = archive.start_export(alice, base, vectors=vectors)
    first = until(lambda: ended(exporting), "the export has ended")
    assert first.status == "done", (first.error_code, first.error_message)
    client = Client()
    client.force_login(world.alice)
    fetched = client.get(f"/bases/{base.uid}/archive/{first.uid}/file/")
    data = b"".join(fetched)
    assert fetched["Content-Disposition"].startswith("attachment")
    assert len(data) == first.size
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    path = tmp_path / "base.zip"
    path.write_bytes(data)
    importing = archive.start_import(alice, path, "base.zip", name="Copy")
    taken = until(lambda: ended(importing), "the import has ended")
    assert taken.status == "done", (taken.error_code, taken.error_message)
    copy = taken.base
    assert copy is not None
    until(lambda: at_rest(copy), "the copy is embedded")
    assert (
        ChunkVector.objects.filter(revision__base=copy).count()
        == ChunkVector.objects.filter(revision__base=base).count()
    )
    again = archive.start_export(alice, copy, vectors=vectors)
    second = until(lambda: ended(again), "the second export has ended")
    assert second.summary["content_hash"] == first.summary["content_hash"]
    assert (
        StoredImage.objects.filter(revision__base=copy).count()
        == StoredImage.objects.filter(revision__base=base).count()
    )
    kinds = set(Notification.objects.filter(user=world.alice).values_list("kind", flat=True))
    assert {"export.done", "import.done"} <= kinds
    assert all(finding.ok for finding in verify()), [finding for finding in verify() if not finding.ok]


def test_a_large_batch_is_worked_on_in_the_background_and_tells_of_every_document(
    world: World, workers: list[Running]
) -> None:
    alice = world.principal(world.alice)
    Document.objects.bulk_create(
        [Document(base=world.base, source_key=f"{n:04}.md", name=f"{n:04}.md") for n in range(400)]
    )
    chosen = Selection(scope="all", filter="", exclude=(Document.objects.latest("pk").uid,), expected=400)
    batch = batches.begin(batches.start(alice, world.base, "tag", chosen, {"tags": ["all"]}))
    done = until(lambda: Batch.objects.filter(pk=batch.pk).exclude(status__in=Batch.OPEN).first(), "the batch ended")
    assert batches.outcomes(done) == batches.Outcomes(done=399)
    assert Document.objects.filter(tags=["all"]).count() == 399


def test_a_batch_whose_worker_is_lost_is_found_again_by_the_sweeper(world: World, workers: list[Running]) -> None:
    alice = world.principal(world.alice)
    row = put(alice, world.base, "a.md", "# A\n\nalpha").document
    batch = batches.start(alice, world.base, "tag", Selection(ids=(row.uid,)), {"tags": ["x"]})
    assert background.claim(batch) is not None
    Batch.objects.filter(pk=batch.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert background.sweep() >= 1
    until(lambda: Batch.objects.filter(pk=batch.pk, status="done").exists(), "somebody took it over")


def command(environment: dict[str, str], *words: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "manage.py", *words, "--json"],
        cwd=locations.REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


def test_the_commands_export_and_import(
    world: World, environment: dict[str, str], workers: list[Running], tmp_path: Path
) -> None:
    base = papers(world)
    until(lambda: at_rest(base), "everything is indexed")
    target = tmp_path / "base.zip"
    out = command(environment, "export", base.name, "--to", str(target), "--vectors", "--as", "alice")
    assert out["counts"]["documents"] == 5
    assert out["bytes"] == target.stat().st_size
    made = command(environment, "import", str(target), "--workspace", "Elsewhere", "--as", "eve", "--name", "Gift")
    assert (made["name"], made["waiting"], made["content_hash"]) == ("Gift", 0, out["content_hash"])
    gift = KnowledgeBase.objects.get(uid=made["base"])
    assert gift.workspace == world.elsewhere


def test_the_api_exports_imports_and_hides(world: World, workers: list[Running]) -> None:
    base = papers(world)
    until(lambda: at_rest(base), "everything is indexed")

    def client(user: Any) -> Client:
        _, secret = keys.create(world.principal(user), name="k", scopes=["kb:read", "kb:manage"])
        return Client(headers={"Authorization": f"Bearer {secret}"})

    alice = client(world.alice)
    told = alice.get(f"/api/v1/bases/{base.uid}/exports/estimate").json()
    assert told["documents"] == 5
    started = alice.post(f"/api/v1/bases/{base.uid}/exports", {"vectors": True}, content_type="application/json")
    assert started.status_code == 202
    address = f"/api/v1/archives/{started.json()['id']}"
    done = until(lambda: (body := alice.get(address).json())["status"] == "done" and body, "the export has ended")
    data = b"".join(alice.get(f"{address}/file"))
    for other in (world.bob, world.mallory, world.eve):
        assert client(other).get(address).status_code == 404
        assert client(other).get(f"{address}/file").status_code == 404
    sent = io.BytesIO(data)
    sent.name = "base.zip"
    taken = client(world.eve).post("/api/v1/imports", {"file": sent, "name": "Gift"})
    assert taken.status_code == 202, taken.content
    eve = client(world.eve)
    place = f"/api/v1/archives/{taken.json()['id']}"
    made = until(lambda: (body := eve.get(place).json())["status"] == "done" and body, "the import has ended")
    assert made["content_hash"] == done["content_hash"]
    assert eve.get(f"/api/v1/bases/{made['base']}").json()["name"] == "Gift"
    assert alice.delete(address).status_code == 204
    assert alice.get(f"{address}/file").status_code == 404
