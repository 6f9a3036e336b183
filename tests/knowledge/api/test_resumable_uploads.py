"""Uploads in pieces: what a client of the tus protocol may rely on, and what it can not do."""

from __future__ import annotations

import base64
import io
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from knowledge import archive, resumable, tasks
from knowledge.models import Archive, Document, Grant, KnowledgeBase, Upload
from portal.kernel import keys
from portal.kernel.models import User
from tests.knowledge.archive.carrying import exported
from tests.support.people import World, indexed, put

TUS = {"Tus-Resumable": "1.0.0"}
TEXT = "# Leave\n\n" + "Twenty days a year, and five more for parents. " * 200


def client_of(world: World, user: User, scopes: tuple[str, ...] = ("kb:read", "kb:write")) -> Client:
    _, secret = keys.create(world.principal(user), name="up", scopes=list(scopes))
    return Client(headers={"X-API-Key": secret})


class Sender:
    """Somebody who sends one file in pieces."""

    def __init__(self, world: World, user: User | None = None) -> None:
        self.client = client_of(world, user or world.alice)
        self.base = world.base
        self.address = ""
        self.uploads = f"/api/v1/bases/{world.base.uid}/uploads"

    def announce(self, file: str, length: int, **metadata: str) -> Any:
        pairs = {"filename": file, **metadata}
        header = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in pairs.items())
        response = self.client.post(
            self.uploads,
            headers={**TUS, "Upload-Length": str(length), "Upload-Metadata": header},
        )
        self.address = response.headers.get("Location", "")
        return response

    def send(self, offset: int, piece: bytes) -> Any:
        return self.client.patch(
            self.address, piece, "application/offset+octet-stream", headers={**TUS, "Upload-Offset": str(offset)}
        )

    def parts(self) -> list[Path]:
        """The files that hold its pieces."""
        folder = settings.ARCHWAY["DATA_DIR"] / "files" / "partial" / self.address.rpartition("/")[2]
        return list(folder.iterdir()) if folder.exists() else []

    def offset(self) -> int:
        response = self.client.head(self.address, headers=TUS)
        assert response.headers["Cache-Control"] == "no-store"
        return int(response.headers["Upload-Offset"])


@pytest.fixture
def sender(world: World) -> Sender:
    return Sender(world)


def test_a_file_sent_in_pieces_becomes_a_document_of_exactly_its_bytes(
    sender: Sender, world: World, django_capture_on_commit_callbacks: Any
) -> None:
    data = TEXT.encode()
    made = sender.announce("leave.md", len(data), path="hr/leave.md", folder="rules")
    assert made.status_code == 201 and made.headers["Upload-Offset"] == "0" and "Upload-Expires" in made.headers
    assert sender.send(0, data[:3000]).headers["Upload-Offset"] == "3000"
    assert sender.offset() == 3000
    assert not Document.objects.exists() and len(sender.parts()) == 1
    with django_capture_on_commit_callbacks(execute=True):
        last = sender.send(3000, data[3000:])
    assert last.status_code == 204 and last.headers["Upload-Offset"] == str(len(data))
    document = Document.objects.get()
    assert (document.folder, document.name) == ("rules/hr", "leave.md")
    stored = Path(settings.STORAGES["default"]["OPTIONS"]["location"]) / document.revisions.get().file
    assert stored.read_bytes() == data
    assert sender.parts() == []
    told = sender.client.get(sender.address).json()
    assert (told["state"], told["outcome"], told["document"]) == ("done", "created", document.uid)


def test_a_piece_at_the_wrong_place_is_refused_and_changes_nothing(sender: Sender) -> None:
    sender.announce("leave.md", 100)
    sender.send(0, b"a" * 40)
    for offset in (0, 39, 41):
        refused = sender.send(offset, b"b" * 10)
        assert refused.status_code == 409 and refused.json()["code"] == "offset_mismatch"
    assert sender.offset() == 40


def test_more_bytes_than_announced_are_refused_whole(sender: Sender) -> None:
    sender.announce("leave.md", 10)
    assert sender.send(0, b"a" * 11).json()["code"] == "past_length"
    assert sender.offset() == 0 and sender.parts() == []


def test_the_wrong_type_is_refused_at_the_first_bytes(sender: Sender, django_capture_on_commit_callbacks: Any) -> None:
    sender.announce("report.pdf", 5_000_000)
    with django_capture_on_commit_callbacks(execute=True):
        refused = sender.send(0, b"MZ\x90\x00" + bytes(70_000))
    assert refused.status_code == 422 and refused.json()["code"] == "type_mismatch"
    assert sender.client.get(sender.address).json()["state"] == "refused"
    assert sender.parts() == []
    assert sender.send(70_004, b"more").json()["code"] == "upload_over"


@pytest.mark.parametrize(("name", "start"), [("a.pdf", b"PK\x03\x04"), ("a.txt", b"PK\x03\x04"), ("a.md", b"\x7fELF")])
def test_containers_and_programs_do_not_pass_as_something_else(sender: Sender, name: str, start: bytes) -> None:
    sender.announce(name, 200_000)
    assert sender.send(0, start + bytes(1000)).json()["code"] == "type_mismatch"


def test_an_office_file_is_not_refused_before_its_end_has_come(sender: Sender) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("word/document.xml", "x" * 300)
    sender.announce("a.docx", len(data.getvalue()))
    assert sender.send(0, data.getvalue()[:100]).status_code == 204


@pytest.mark.parametrize(
    ("name", "length", "code"),
    [
        ("a.exe", 10, "unsupported_type"),
        ("a.md", 0, "empty_file"),
        ("a.md", 21 * 1_048_576, "too_large"),
        ("a.pdf", 10**12, "too_large"),
    ],
)
def test_what_name_and_size_rule_out_is_refused_before_any_byte(
    sender: Sender, name: str, length: int, code: str
) -> None:
    assert sender.announce(name, length).json()["code"] == code
    assert not Upload.objects.exists()


def test_a_duplicate_is_told_at_the_end_with_the_document_that_is_there(sender: Sender, world: World) -> None:
    there = put(world.principal(world.alice), world.base, "old.md", TEXT).document
    sender.announce("new.md", len(TEXT))
    answer = sender.send(0, TEXT.encode())
    assert answer.status_code == 409 and answer.json()["code"] == "duplicate"
    told = sender.client.get(sender.address).json()
    assert (told["state"], told["document"]) == ("refused", there.uid)


def test_while_the_document_is_processed_the_last_piece_may_be_sent_again(sender: Sender, world: World) -> None:
    put(world.principal(world.alice), world.base, "leave.md", "# Leave\n\nbefore")
    sender.announce("leave.md", len(TEXT))
    sender.send(0, TEXT.encode()[:100])
    assert sender.send(100, TEXT.encode()[100:]).json()["code"] == "revision_open"
    assert sender.offset() == 100
    document = Document.objects.get()
    document.revisions.update(status="indexed")
    assert sender.send(100, TEXT.encode()[100:]).status_code == 204
    assert document.revisions.count() == 2


def test_open_uploads_are_found_again_by_what_the_client_calls_the_file(sender: Sender, world: World) -> None:
    sender.announce("big.md", 1000, fingerprint="big.md|1000|5")
    sender.send(0, b"a" * 10)
    (found,) = sender.client.get(f"/api/v1/bases/{world.base.uid}/uploads").json()
    assert (found["fingerprint"], found["offset"], found["length"]) == ("big.md|1000|5", 10, 1000)


def test_room_is_bounded_per_person_and_in_all(world: World, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "OPEN_UPLOAD_BYTES": 1000, "ALL_UPLOAD_BYTES": 1500}
    alice, adam = Sender(world), Sender(world, world.admin)
    assert alice.announce("a.md", 900).status_code == 201
    first = alice.address
    refused = alice.announce("b.md", 200)
    assert refused.status_code == 429 and refused.json()["code"] == "uploads_waiting"
    assert adam.announce("c.md", 700).status_code == 429
    assert adam.announce("c.md", 600).status_code == 201
    assert alice.client.delete(first, headers=TUS).status_code == 204
    assert alice.announce("b.md", 200).status_code == 201


def test_what_is_broken_off_is_swept_and_leaves_no_document(
    sender: Sender, django_capture_on_commit_callbacks: Any
) -> None:
    sender.announce("leave.md", 1000)
    sender.send(0, b"a" * 10)
    assert len(sender.parts()) == 1
    Upload.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert sender.client.head(sender.address, headers=TUS).status_code == 404
    with django_capture_on_commit_callbacks(execute=True):
        tasks.clean_up()
    assert not Upload.objects.exists() and not Document.objects.exists() and sender.parts() == []


def test_a_part_of_a_killed_process_is_written_over(sender: Sender, world: World) -> None:
    from django.core.files.base import ContentFile
    from django.core.files.storage import default_storage

    data = TEXT.encode()
    sender.announce("leave.md", len(data))
    sender.send(0, data[:50])
    upload = Upload.objects.get()
    default_storage.save(f"partial/{upload.uid}/{50:015d}", ContentFile(b"half of what was to come"))
    assert sender.send(50, data[50:]).status_code == 204
    assert Document.objects.get().revisions.get().size == len(data)


def test_uploads_of_others_are_absent_even_for_those_who_edit_the_base(world: World) -> None:
    alice = Sender(world)
    alice.announce("leave.md", 100)
    for user in (world.admin, world.bob, world.mallory, world.eve):
        client = client_of(world, user)
        assert client.head(alice.address, headers=TUS).status_code == 404
        assert client.delete(alice.address, headers=TUS).status_code == 404
        piece = client.patch(
            alice.address, b"x", "application/offset+octet-stream", headers={**TUS, "Upload-Offset": "0"}
        )
        assert piece.status_code == 404
    assert alice.offset() == 0


def test_a_viewer_may_not_begin_and_losing_the_role_ends_the_upload(world: World) -> None:
    bob = Sender(world, world.bob)
    assert bob.announce("a.md", 10).status_code == 403
    from knowledge import bases
    from knowledge.models import Grant, Role

    alice = world.principal(world.alice)
    bases.grant(alice, world.base, Role.EDITOR, user=world.bob)
    assert bob.announce("a.md", 10).status_code == 201
    bases.revoke(alice, world.base, Grant.objects.get(base=world.base, user=world.bob))
    assert bob.send(0, b"0123456789").status_code == 404
    assert not Document.objects.exists()


def test_the_protocol_is_spoken_as_written(sender: Sender) -> None:
    options = sender.client.options("/api/v1/uploads/whatever")
    assert options.status_code == 204
    assert options.headers["Tus-Version"] == "1.0.0"
    assert options.headers["Tus-Extension"] == "creation,expiration,termination"
    assert int(options.headers["Tus-Max-Size"]) == settings.ARCHWAY["MAX_UPLOAD_BYTES"]
    sender.announce("a.md", 10)
    old = sender.client.head(sender.address, headers={"Tus-Resumable": "0.2.2"})
    assert old.status_code == 412 and old.headers["Tus-Version"] == "1.0.0"
    wrong = sender.client.patch(sender.address, b"x", "text/plain", headers={**TUS, "Upload-Offset": "0"})
    assert wrong.status_code == 415
    assert sender.send(0, b"0123456789").headers["Tus-Resumable"] == "1.0.0"


def test_the_sweeper_leaves_what_can_still_be_gone_on_with(sender: Sender) -> None:
    sender.announce("leave.md", 1000)
    assert resumable.sweep() == 0
    assert Upload.objects.count() == 1


# -- archives ------------------------------------------------------------------------------------------


class ImportSender(Sender):
    """Somebody who sends the file of an export in pieces."""

    def __init__(self, world: World, user: User | None = None, **narrow: Any) -> None:
        super().__init__(world, user)
        _, secret = keys.create(
            world.principal(user or world.alice), name="m", scopes=["kb:read", "kb:write", "kb:manage"], **narrow
        )
        self.client = Client(headers={"X-API-Key": secret})
        self.uploads = "/api/v1/imports/uploads"


@pytest.fixture
def packed(world: World, tmp_path: Path) -> bytes:
    """A small base as the file of an export."""
    indexed(world.principal(world.alice), world.base, "leave.md", TEXT)
    exported(world.base, tmp_path / "base.zip")
    return (tmp_path / "base.zip").read_bytes()


def test_an_archive_comes_in_pieces_goes_on_after_a_break_and_becomes_a_base(world: World, packed: bytes) -> None:
    sender = ImportSender(world)
    assert sender.announce("base.zip", len(packed), name="Copied", fingerprint="f").status_code == 201
    cut = len(packed) // 2
    assert sender.send(0, packed[:cut]).status_code == 204
    # The person comes back: the server says what it has, and a piece that is sent twice is told where to go on.
    (waiting,) = sender.client.get("/api/v1/imports/uploads").json()
    assert (waiting["offset"], waiting["base"], waiting["fingerprint"]) == (cut, None, "f")
    assert sender.send(0, packed[:cut]).json()["code"] == "offset_mismatch"
    assert sender.send(cut, packed[cut:]).status_code == 204
    told = sender.client.get(sender.address).json()
    assert (told["state"], told["outcome"]) == ("done", "import")
    row = Archive.objects.get(uid=told["archive"])
    archive.work(row.pk)
    row.refresh_from_db()
    assert row.status == "done" and row.base is not None and row.base.name == "Copied"
    assert Document.objects.filter(base=row.base, name="leave.md").exists()
    assert sender.client.get("/api/v1/imports/uploads").json() == []


def test_only_who_sends_an_archive_sees_it_and_may_go_on(world: World, packed: bytes) -> None:
    sender = ImportSender(world)
    sender.announce("base.zip", len(packed))
    for other in (world.bob, world.mallory, world.admin):
        stranger = ImportSender(world, other)
        stranger.address = sender.address
        assert stranger.send(0, packed[:10]).status_code == 404
        assert stranger.client.get("/api/v1/imports/uploads").json() == []
    writer = Sender(world)
    writer.address = sender.address
    assert writer.send(0, packed[:10]).status_code == 404
    narrowed = ImportSender(world, base_ids=[world.base.pk])
    assert narrowed.announce("base.zip", len(packed)).json()["code"] == "key_narrowed"
    narrowed.address = sender.address
    assert narrowed.send(0, packed[:10]).status_code == 404
    browser = Client()
    browser.force_login(world.mallory)
    assert browser.post("/imports/discard/", {"upload": sender.address.rpartition("/")[2]}).status_code == 404
    browser.force_login(world.alice)
    page = browser.get("/imports/").content.decode()
    assert "base.zip" in page and "import-progress" in page
    assert browser.post("/imports/discard/", {"upload": sender.address.rpartition("/")[2]}).status_code == 302
    assert not Upload.objects.filter(base=None).exists()


def test_what_is_no_archive_is_refused_before_all_of_it_has_come(world: World, packed: bytes, settings: Any) -> None:
    sender = ImportSender(world)
    assert sender.announce("notes.pdf", 100).json()["code"] == "not_an_archive"
    assert sender.announce("base.zip", 0).json()["code"] == "not_an_archive"
    sender.announce("base.zip", 10_000)
    assert sender.send(0, b"no zip at all").json()["code"] == "not_an_archive"
    sender.announce("base.zip", len(packed))
    assert sender.send(0, packed[:-30] + bytes(30)).json()["code"] in ("not_an_archive", "damaged_file")
    assert not Archive.objects.filter(kind="import").exists()
    settings.ARCHWAY = {**settings.ARCHWAY, "MAX_IMPORT_BYTES": 1_000_000, "OPEN_UPLOAD_BYTES": 500}
    assert sender.announce("base.zip", 1_000_001).status_code == 413
    # A single archive may be larger than what files of a person may have under way together.
    assert sender.announce("base.zip", 900_000).status_code == 201
    assert sender.announce("other.zip", 900_000).json()["code"] == "uploads_waiting"
    assert KnowledgeBase.objects.filter(deleted_at=None).count() == 2 and Grant.objects.exists()
