"""A disk without room: said so, on every door, and not as an error of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import FileSystemStorage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge.models import Document
from portal.kernel.middleware import no_room
from tests.support.people import World

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")


class FullDisk(FileSystemStorage):
    """A folder on a disk without room."""

    def _save(self, name: str, content: Any) -> str:
        with FULL.open("wb", buffering=0) as file:
            file.write(b"x")
        return name


@pytest.mark.parametrize("address", ["/api/v1/bases/{base}/documents", "/bases/{base}/documents/upload/"])
def test_an_upload_that_finds_no_room_says_so_and_keeps_nothing(world: World, settings: Any, address: str) -> None:
    here = f"{FullDisk.__module__}.{FullDisk.__qualname__}"
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": here}}
    client = Client(raise_request_exception=False, headers={"Accept": "application/json"})
    client.force_login(world.alice)
    file = SimpleUploadedFile("a.txt", b"Words that find no room.")
    answer = client.post(address.format(base=world.base.uid), {"file": file})
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_full"), answer.content
    assert not Document.objects.filter(base=world.base).exists()


def test_other_errors_are_not_taken_for_a_full_disk() -> None:
    with pytest.raises(OSError) as missing:
        Path("/nowhere/at/all").read_bytes()
    assert no_room(missing.value) is None
    assert no_room(ValueError("x")) is None
