"""Parsers that a bad document has taken over. They run only inside the sandbox, by name, in its tests."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from portal.kernel.errors import ParseError


def report(source: Source, context: ParseContext) -> ParsedDocument:
    """Try what the file asks for (JSON: socket, key, port) and tell what worked."""
    wanted = json.loads(source.read())
    attempts: dict[str, Callable[[], object]] = {
        "connect to the database socket": lambda: _connect(socket.AF_UNIX, wanted["socket"]),
        "open a network connection": lambda: _connect(socket.AF_INET, ("127.0.0.1", wanted["port"])),
        "read the key file": lambda: Path(wanted["key"]).read_bytes(),
        "read /etc/passwd": lambda: Path("/etc/passwd").read_bytes(),
        "list the data folder": lambda: os.listdir(Path(wanted["key"]).parent),
        "read another process's environment": lambda: Path(f"/proc/{wanted['owner']}/environ").read_bytes(),
        "write next to the key": lambda: (Path(wanted["key"]).parent / "owned").write_text("x"),
        "start a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "fork": _fork,
        "signal the owner": lambda: os.kill(wanted["owner"], signal.SIGURG),
        "trace the owner": lambda: _checked(ctypes.CDLL(None, use_errno=True).ptrace(16, wanted["owner"], 0, 0)),
        "see the owner's environment": lambda: os.environ["ARCHWAY_TEST_SECRET"],
    }
    worked = [name for name, attempt in attempts.items() if _works(attempt)]
    return assemble("text/plain", [Block(kind="paragraph", text="worked: " + json.dumps(worked))])


def names_its_process(source: Source, context: ParseContext) -> ParsedDocument:
    return assemble("text/plain", [Block(kind="paragraph", text=f"process {os.getpid()} {source.read().decode()}")])


def leaves_links(source: Source, context: ParseContext) -> ParsedDocument:
    """Puts links to the file that the text names where the next file is going to lie."""
    target = source.read().decode()
    for name in ("source", "recognised"):
        place = source.path.with_name(name)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
    return _here()


def _here() -> ParsedDocument:
    return assemble("text/plain", [Block(kind="paragraph", text=f"process {os.getpid()} ")])


_left: list[object] = []


def leaves_memory(source: Source, context: ParseContext) -> ParsedDocument:
    """Address space of 800 MB that nobody touches, so that the process looks small."""
    _left.append(mmap.mmap(-1, 800 * 2**20))
    return _here()


def needs_memory(source: Source, context: ParseContext) -> ParsedDocument:
    mmap.mmap(-1, 600 * 2**20).close()
    return _here()


def takes_time(source: Source, context: ParseContext) -> ParsedDocument:
    """0.6 s of processor time."""
    began = time.process_time()
    while time.process_time() - began < 0.6:
        pass
    return _here()


def loops(source: Source, context: ParseContext) -> ParsedDocument:
    while True:
        pass


def sleeps(source: Source, context: ParseContext) -> ParsedDocument:
    context.progress(1, 3)
    time.sleep(600)
    raise AssertionError


def sleeps_unseen(source: Source, context: ParseContext) -> ParsedDocument:
    time.sleep(600)
    raise AssertionError


def allocates(source: Source, context: ParseContext) -> ParsedDocument:
    hoard = []
    while True:
        hoard.append(bytearray(16 * 1024 * 1024))


def allocates_in_library(source: Source, context: ParseContext) -> ParsedDocument:
    """As a Rust library does when memory ends: a line on standard error, then abort."""
    os.write(2, b"memory allocation of 4294967296 bytes failed\n")
    os.abort()


def crashes(source: Source, context: ParseContext) -> ParsedDocument:
    ctypes.string_at(0)
    raise AssertionError


def raises(source: Source, context: ParseContext) -> ParsedDocument:
    raise KeyError("words of the document that must not reach a log: 机密")


def refuses(source: Source, context: ParseContext) -> ParsedDocument:
    raise ParseError("The table holds more than %(cells)s cells.", code="too_many_cells", cells=7)


def fills_disk(source: Source, context: ParseContext) -> ParsedDocument:
    with (source.path.parent / "big").open("wb") as file:
        while True:
            file.write(b"x" * 1_000_000)


def lies(source: Source, context: ParseContext) -> ParsedDocument:
    """Writes what is no frame of ours to every descriptor it has."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"X" * 4096)
        except OSError:
            continue
    os._exit(0)


def vanishes(source: Source, context: ParseContext) -> ParsedDocument:
    os._exit(0)


def reports_progress(source: Source, context: ParseContext) -> ParsedDocument:
    for page in range(1, 5001):
        context.progress(page, 5000)
        time.sleep(0.0001)
    return assemble("text/plain", [Block(kind="paragraph", text="done")])


def everything(source: Source, context: ParseContext) -> ParsedDocument:
    """A document that uses every field, with characters that can not be stored."""
    image = Image(key="wrong", mime="image/png", data=b"\x89PNG", alt="图")
    blocks = [
        Block(kind="heading", text="标题", level=1),
        Block(
            kind="paragraph",
            text="a\x00b \ud83d 😀",
            heading_path=("标题",),
            page=2,
            bbox=(1.5, 2.0, 3.0, 4.0),
            image="k",
        ),
        Block(kind="table", text="| a |\n|---|\n| 1 |", sheet="表", rows=(1, 2), slide=3),
    ]
    return assemble(
        "text/plain", blocks, warnings=["w: x"], images=[image], page_count=3, title="t\x00", metadata={"k": "v"}
    )


def scratch_files(source: Source, context: ParseContext) -> ParsedDocument:
    """What lies in the scratch folder, then leaves something there."""
    found = sorted(path.name for path in source.path.parent.iterdir())
    (source.path.parent / "left behind").mkdir()
    return assemble("text/plain", [Block(kind="paragraph", text=" ".join(found))])


def _connect(family: int, address: str | tuple[str, int]) -> None:
    with socket.socket(family) as connection:
        connection.settimeout(2)
        connection.connect(address)


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _checked(result: int) -> None:
    if result == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, KeyError):
        return False
    return True
