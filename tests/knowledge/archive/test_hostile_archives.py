"""Archives that somebody has damaged or made to do harm: refused in one sentence, and nothing stays."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.files.storage import default_storage

from knowledge import archive
from knowledge.archive.reading import check, opened
from knowledge.models import Archive, Chunk, Document, KnowledgeBase, Revision, Tag
from portal.kernel.errors import ArchwayError, Denied
from portal.kernel.keys import create as create_key
from portal.kernel.principal import for_key
from tests.knowledge.archive.carrying import (
    Entries,
    change_record,
    exported,
    furnish,
    imported,
    reseal,
    tampered,
)
from tests.support.people import World


@pytest.fixture
def honest(world: World, tmp_path: Path) -> Path:
    exported(furnish(world), tmp_path / "honest.zip", vectors=True)
    return tmp_path / "honest.zip"


def stored_files() -> set[str]:
    """Names of everything that is stored."""
    root = Path(default_storage.path(""))
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (KnowledgeBase, Document, Revision, Chunk, Tag))


def refuse(world: World, path: Path) -> str:
    """The code with which an archive is refused, at the door or by the worker; fails when anything stays."""
    before, files = counts(), stored_files()
    try:
        row = imported(world.principal(world.alice), path)
    except ArchwayError as error:
        code = error.code
    else:
        assert row.status == Archive.Status.FAILED, "it was imported"
        assert row.base is None
        code = row.error_code
    assert counts() == before
    assert stored_files() == files
    return code


def drop_a_file(entries: Entries) -> None:
    del entries[next(name for name in entries if name.startswith("files/"))]


def change_a_file(entries: Entries) -> None:
    name = next(name for name in entries if name.startswith("files/"))
    entries[name] += b"!"


def add_a_file(entries: Entries) -> None:
    entries["files/" + "0" * 64] = b"more"
    reseal(entries)


def climb_out(entries: Entries) -> None:
    entries["../../outside"] = b"more"
    reseal(entries)


def change_a_letter(entries: Entries) -> None:
    entries["chunks.jsonl"] = entries["chunks.jsonl"].replace(b"Ten days", b"Two days")


def change_the_settings(entries: Entries) -> None:
    manifest = json.loads(entries["manifest.json"])
    manifest["base"]["sensitive"] = True
    entries["manifest.json"] = json.dumps(manifest).encode()


def unknown_part(entries: Entries) -> None:
    manifest = json.loads(entries["manifest.json"])
    manifest["parts"].append({"name": "spells", "records": 0, "sha256": "0" * 64, "content": "0" * 64})
    entries["manifest.json"] = json.dumps(manifest).encode()
    entries["spells.jsonl"] = b""


def drop_the_manifest(entries: Entries) -> None:
    del entries["manifest.json"]


def deep_json(entries: Entries) -> None:
    entries["manifest.json"] = b"[" * 100_000


def half_a_line(entries: Entries) -> None:
    entries["tags.jsonl"] = entries["tags.jsonl"][:-3]


CHANGES: list[tuple[Callable[[Entries], None], str]] = [
    (drop_a_file, "archive_changed"),
    (change_a_file, "archive_changed"),
    (add_a_file, "archive_changed"),
    (climb_out, "archive_changed"),
    (change_a_letter, "archive_changed"),
    (change_the_settings, "archive_changed"),
    (unknown_part, "archive_changed"),
    (half_a_line, "archive_changed"),
    (drop_the_manifest, "not_an_archive"),
    (deep_json, "not_an_archive"),
]


@pytest.mark.parametrize(("change", "code"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_tampered_archive_is_refused_and_leaves_nothing(
    world: World, honest: Path, tmp_path: Path, change: Callable[[Entries], None], code: str
) -> None:
    assert refuse(world, tampered(honest, tmp_path / "bad.zip", change)) == code


RECORDS: list[tuple[str, int, dict[str, object]]] = [
    ("documents", 0, {"name": "../../etc/passwd"}),
    ("documents", 0, {"source_key": "other.md"}),
    ("documents", 0, {"name": "a\u202egpj.exe", "source_key": "a\u202egpj.exe"}),
    ("documents", 0, {"doc": 7}),
    ("documents", 0, {"tags": ["nowhere"]}),
    ("documents", 0, {"active": 99}),
    ("documents", 0, {"created_at": "yesterday"}),
    ("documents", 0, {"owner": "x"}),
    ("revisions", 0, {"mime": "application/x-msdownload"}),
    ("revisions", 0, {"state": "pending"}),
    ("revisions", 0, {"sha256": "f" * 64}),
    ("revisions", 0, {"size": -1}),
    ("revisions", 0, {"number": 2**40}),
    ("revisions", 0, {"config": {"splitting": {"passage_tokens": 10**9}}}),
    ("revisions", 0, {"error_code": "%(code)s"}),
    ("revisions", 0, {"file_name": "..\\..\\boot.ini"}),
    ("chunks", 0, {"text": "a\x00b"}),
    ("chunks", 0, {"level": "secret"}),
    ("chunks", 0, {"rev": 77}),
    ("chunks", 0, {"start": 9, "end": 1}),
    ("chunks", 0, {"ordinal": -1}),
    ("chunks", 1, {"parent": ["passage", 4_000]}),
    ("tags", 0, {"name": "  "}),
    ("vectors", 0, {"vector": "AAAA"}),
    ("vectors", 0, {"vector": "not base64"}),
    ("vectors", 0, {"ordinal": 5_000}),
]


NAMES = [f"{part}-{'-'.join(fields)}-{place}" for place, (part, _, fields) in enumerate(RECORDS)]


@pytest.mark.parametrize(("part", "number", "fields"), RECORDS, ids=NAMES)
def test_a_record_that_does_harm_is_refused_though_all_hashes_fit(
    world: World, honest: Path, tmp_path: Path, part: str, number: int, fields: dict[str, object]
) -> None:
    bad = tampered(honest, tmp_path / "bad.zip", change_record(part, number, **fields))
    assert refuse(world, bad) == "archive_changed"


def test_an_archive_whose_hashes_are_made_anew_without_a_change_is_still_accepted(
    world: World, honest: Path, tmp_path: Path
) -> None:
    # Otherwise the tests above would prove nothing.
    same = tampered(honest, tmp_path / "same.zip", reseal)
    with opened(same) as archive_file:
        assert check(archive_file).content_hash


def test_files_of_other_kinds_are_refused_at_the_door(world: World, tmp_path: Path) -> None:
    alice = world.principal(world.alice)
    (tmp_path / "a.zip").write_bytes(b"%PDF-1.4 not a zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as other:
        other.writestr("readme.txt", "an ordinary zip")
    (tmp_path / "c.zip").write_bytes(b"")
    for name in ("a.zip", "b.zip", "c.zip"):
        with pytest.raises(ArchwayError) as refused:
            archive.start_import(alice, tmp_path / name, name)
        assert refused.value.code == "not_an_archive"
    assert not Archive.objects.exists()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.999])
def test_an_archive_that_is_cut_off_is_refused_at_the_door(
    world: World, honest: Path, tmp_path: Path, share: float
) -> None:
    data = honest.read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[: int(len(data) * share)])
    before = counts()
    with pytest.raises(ArchwayError) as refused:
        archive.start_import(world.principal(world.alice), tmp_path / "cut.zip", "cut.zip")
    assert refused.value.code == "not_an_archive"
    assert counts() == before and not Archive.objects.exists()


def test_a_newer_format_is_named(world: World, honest: Path, tmp_path: Path) -> None:
    def newer(entries: Entries) -> None:
        manifest = json.loads(entries["manifest.json"])
        entries["manifest.json"] = json.dumps({**manifest, "version": 2}).encode()
        reseal(entries)

    assert refuse(world, tampered(honest, tmp_path / "new.zip", newer)) == "archive_newer"


def test_a_bomb_is_stopped_while_it_is_unpacked(
    world: World, honest: Path, tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "MAX_IMPORT_BYTES": 60_000}  # type: ignore[attr-defined]

    def swell(entries: Entries) -> None:
        entries["chunks.jsonl"] = b'{"text":"' + b"a" * 2_000_000 + b'"}\n'

    bad = tampered(honest, tmp_path / "bomb.zip", swell)
    assert bad.stat().st_size < 60_000
    assert refuse(world, bad) == "archive_limit"


def test_sizes_in_the_directory_are_not_believed(world: World, honest: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.zip"
    shutil.copyfile(honest, bad)
    data = bytearray(bad.read_bytes())
    # The first entry of the central directory says that it is empty when unpacked.
    place = data.index(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 0)
    data[place + 16 : place + 20] = struct.pack("<I", 0)
    bad.write_bytes(bytes(data))
    assert refuse(world, bad) in {"archive_changed", "not_an_archive"}


def test_a_claimed_reading_of_known_bytes_is_never_found_by_other_documents(
    world: World, honest: Path, tmp_path: Path
) -> None:
    """What our own parser has read is shared by equal bytes; an archive must not be able to plant such a reading."""

    def lie(entries: Entries) -> None:
        name = next(name for name in entries if name.startswith("parsed/"))
        lies = entries.pop(name).replace(b"days", b"lies")
        fresh = hashlib.sha256(lies).hexdigest()
        entries[f"parsed/{fresh}"] = lies
        entries["revisions.jsonl"] = entries["revisions.jsonl"].replace(name[7:].encode(), fresh.encode())
        reseal(entries)

    before = {row.parsed_key for row in Revision.objects.filter(base=world.base)}
    row = imported(world.principal(world.mallory), tampered(honest, tmp_path / "lie.zip", lie))
    assert row.base is not None
    planted = set(Revision.objects.filter(base=row.base).exclude(parsed_key="").values_list("parsed_key", flat=True))
    assert planted
    assert not planted & before


def test_a_key_needs_the_scope_and_no_list_of_bases(world: World, honest: Path) -> None:
    alice = world.principal(world.alice)
    for narrow in ({"scopes": ["kb:write"]}, {"scopes": ["kb:manage"], "base_ids": [world.base.pk]}):
        key, _ = create_key(alice, name="k", **narrow)
        with pytest.raises(Denied):
            archive.start_import(for_key(key), honest, "a.zip")
