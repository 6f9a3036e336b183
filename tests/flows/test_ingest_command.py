"""`manage.py ingest` against a running worker: the documented JSON, and every file in an honest state at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge import lifecycle
from knowledge.models import Chunk, ChunkVector, KnowledgeBase, Revision
from portal.embedded import locations
from tests.support.people import World
from tests.support.running import PATIENCE, Running, worker

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def ingest_worker(environment: dict[str, str]) -> Iterator[Running]:
    with worker(environment, children=2) as running:
        yield running


def ingest(environment: dict[str, str], folder: Path, *more: str) -> dict[str, Any]:
    command = [sys.executable, "manage.py", "ingest", str(folder), "--kb", "Fixtures", "--json", *more]
    ended = subprocess.run(
        command,
        cwd=locations.REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of many kinds, some of which can not be used."""
    place = tmp_path / "papers 文件"
    (place / "sub").mkdir(parents=True)
    files: dict[str, bytes] = {
        "rules.md": "# 年假\n\n员工每年享有十五天带薪年假。\n\n# Travel\n\nTrains are booked by the office.\n".encode(),
        "sub/rules.md": b"# Parking\n\nThe yard opens at seven.\n",
        "gbk.txt": "采购流程：先申请，再审批，最后付款。\n".encode("gbk") * 5,
        "torn.txt": b"The lift is checked in May.\n" * 20 + b"\xff\xfe\xfa broken",
        "prices.csv": b"part,price\nTH-01,12.50\nTH-02,9.00\n",
        "page.html": b"<html><body><h1>Menu</h1><p>Soup on Mondays.</p></body></html>",
        "data.json": json.dumps({"door": "blue", "rooms": [1, 2, 3]}).encode(),
        "blank.md": b"  \n\n \n",
        "empty.txt": b"",
        "again.md": b"# Parking\n\nThe yard opens at seven.\n",
        "program.exe": b"MZ\x90\x00" + b"\x00" * 100,
        "cut.docx": b"PK\x03\x04" + b"\x00" * 60,
        "cut.pdf": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog",
        ".hidden": b"not taken",
    }
    for name, data in files.items():
        (place / name).write_bytes(data)
    return place


CODES = {
    "blank.md": ("no_text", "no_text"),
    "empty.txt": ("refused", "empty_file"),
    "program.exe": ("refused", "unsupported_type"),
    "cut.docx": ("refused", "damaged_file"),
}
ONE_OF_TWO = {"again.md", "sub/rules.md"}


def test_every_file_of_a_folder_ends_in_an_honest_state(
    world: World, environment: dict[str, str], ingest_worker: Running, folder: Path
) -> None:
    report = ingest(environment, folder, "--wait")
    assert set(report) == {"counts", "seconds", "chunks", "chunks_per_second", "files"}
    assert set(report["counts"]) == {"total", "indexed", "no_text", "failed", "duplicate", "refused"}
    files = {row["name"]: row for row in report["files"]}
    assert len(files) == report["counts"]["total"] == 13
    assert all(set(row) == {"name", "status", "code", "message", "chunks"} for row in report["files"])
    for name, row in files.items():
        if row["status"] == "indexed":
            assert row["chunks"] > 0, name
            assert not row["code"]
        else:
            assert row["status"] in {"no_text", "failed", "duplicate", "refused"}, (name, row)
            assert row["code"], name
            assert row["message"].endswith((".", "。")), (name, row)
            assert str(folder) not in row["message"]
    assert {name: (files[name]["status"], files[name]["code"]) for name in CODES} == CODES
    assert {files[name]["status"] for name in ONE_OF_TWO} == {"indexed", "duplicate"}
    good = {"rules.md", "gbk.txt", "torn.txt", "prices.csv", "page.html", "data.json"}
    assert {name for name in good if files[name]["status"] == "indexed"} == good
    assert (files["cut.pdf"]["status"], files["cut.pdf"]["chunks"]) != ("indexed", 0)
    assert report["chunks"] == sum(row["chunks"] for row in report["files"]) > 0
    base = KnowledgeBase.objects.get(name="Fixtures")
    assert not Revision.objects.filter(base=base, status__in=lifecycle.OPEN).exists()
    leaves = Chunk.objects.filter(revision__base=base, level="leaf").count()
    assert leaves == report["chunks"] == ChunkVector.objects.filter(revision__base=base).count()


def test_the_same_folder_again_adds_nothing(
    world: World, environment: dict[str, str], ingest_worker: Running, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("# A\n\nThe first text.\n", "utf-8")
    (tmp_path / "b.md").write_text("# B\n\nThe second text.\n", "utf-8")
    first = ingest(environment, tmp_path, "--wait")
    assert first["counts"]["indexed"] == 2
    second = ingest(environment, tmp_path, "--wait")
    assert (second["counts"]["duplicate"], second["counts"]["indexed"], second["chunks"]) == (2, 0, 0)
    (tmp_path / "a.md").write_text("# A\n\nThe first text, amended.\n", "utf-8")
    third = ingest(environment, tmp_path, "--wait")
    assert (third["counts"]["duplicate"], third["counts"]["indexed"]) == (1, 1)
    assert Revision.objects.filter(base__name="Fixtures").count() == 3
