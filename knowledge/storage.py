"""Where bytes are kept: uploaded files and stage outputs, under names that the server makes.

Original names never reach a path. Stage outputs are named by a hash of what they were made from, so a
retry, a re-split or a re-index redoes only what its inputs changed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from portal.kernel.models import new_uid

PACKED_AT_ONCE = 4_000_000  # bytes between two signs of life


def new_name(folder: str = "documents") -> str:
    """A name that nothing is stored under."""
    return f"{folder}/{timezone.now():%Y/%m}/{new_uid()}"


def save_file(path: Path, name: str = "") -> str:
    """Keep the bytes of a local file (under a name from `new_name`); returns their stored name."""
    with path.open("rb") as stream:
        return default_storage.save(name or new_name(), File(stream))


def save_bytes(folder: str, data: bytes) -> str:
    """Keep some bytes once, named by their hash; returns the stored name."""
    digest = hashlib.sha256(data).hexdigest()
    name = f"{folder}/{digest[:2]}/{digest}"
    return name if default_storage.exists(name) else default_storage.save(name, ContentFile(data))


def exists(name: str) -> bool:
    """Whether bytes are stored under a name."""
    return default_storage.exists(name)


def delete_file(name: str) -> None:
    """Forget stored bytes; absent ones are no error."""
    default_storage.delete(name)


def open_file(name: str) -> File[bytes]:
    """The stored bytes as an open stream."""
    return default_storage.open(name, "rb")


@contextmanager
def local_copy(name: str) -> Iterator[Path]:
    """A path to the stored bytes on this machine: the file itself, or a temporary copy of a remote one."""
    try:
        yield Path(default_storage.path(name))
        return
    except NotImplementedError:
        pass
    with tempfile.NamedTemporaryFile(prefix="archway-") as copy:
        with open_file(name) as stream:
            for block in stream.chunks():
                copy.write(block)
        copy.flush()
        yield Path(copy.name)


def output_key(*parts: object) -> str:
    """The name of a stage output: a hash of everything that it depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def output_name(key: str) -> str:
    """The stored name of a stage output."""
    return f"outputs/{key[:2]}/{key}.json.gz"


def write_output(
    key: str, value: dict[str, Any], on_progress: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """Keep a stage output; writing it again is no error. `on_progress` is told of the bytes that are packed."""
    name = output_name(key)
    if default_storage.exists(name):
        return
    on_progress(0, 1)
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=3, mtime=0) as stream:
        for start in range(0, len(data), PACKED_AT_ONCE):
            on_progress(start, len(data))
            stream.write(data[start : start + PACKED_AT_ONCE])
    on_progress(len(data), len(data))
    default_storage.save(name, ContentFile(packed.getvalue()))


def delete_output(key: str) -> None:
    """Forget a stage output; an absent one is no error."""
    if key:
        default_storage.delete(output_name(key))


def read_output(key: str) -> dict[str, Any] | None:
    """A stage output, or None when it is not kept (any more)."""
    name = output_name(key)
    if not key or not default_storage.exists(name):
        return None
    with default_storage.open(name, "rb") as stream:
        value: dict[str, Any] = json.loads(gzip.decompress(stream.read()))
    return value
