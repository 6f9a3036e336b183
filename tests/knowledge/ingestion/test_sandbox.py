"""The sandbox against parsers that a bad document has taken over."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.ingestion import sandbox
from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.fork_server import SPARES
from knowledge.ingestion.sandbox import SandboxLimits, isolation, parse_file
from portal.kernel.errors import ParseError

HOSTILE = "tests.knowledge.ingestion.hostile_parsers"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "stored"
    path.write_text("hello", encoding="utf-8")
    return Source(path, "机密 名单.txt", "text/plain")


def run(source: Source, parser: str, **limits: float) -> ParsedDocument:
    return parse_file(source, SandboxLimits(**limits), parser=f"{HOSTILE}:{parser}")  # type: ignore[arg-type]


def code_of(source: Source, parser: str, **limits: float) -> str:
    with pytest.raises(ParseError) as caught:
        run(source, parser, **limits)
    return caught.value.code


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, object]]:
    """A database socket, a key file and an open port, as the data folder has them."""
    folder = tmp_path / "var"
    folder.mkdir()
    key = folder / "master.key"
    key.write_bytes(os.urandom(32))
    with socket.socket(socket.AF_UNIX) as database, socket.socket(socket.AF_INET) as port:
        database.bind(str(folder / "db"))
        database.listen()
        port.bind(("127.0.0.1", 0))
        port.listen()
        yield {
            "socket": str(folder / "db"),
            "key": str(key),
            "port": port.getsockname()[1],
            "owner": os.getpid(),
        }


def test_a_text_file_comes_back_as_its_parser_read_it(source: Source) -> None:
    document = parse_file(source)
    assert document.text == "hello"
    assert document.mime == "text/plain"


def test_hostile_parser_reaches_neither_database_nor_key_nor_network(
    tmp_path: Path, listeners: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not {"landlock", "mount namespace"} & set(isolation()) or "seccomp" not in isolation():
        pytest.skip("this system offers no isolation")
    monkeypatch.setenv("ARCHWAY_TEST_SECRET", "s3cret")
    path = tmp_path / "request.json"
    path.write_text(json.dumps(listeners), encoding="utf-8")
    document = run(Source(path, "request.json", "text/plain"), "report")
    assert document.text == "worked: []"


def test_the_same_attempts_work_outside_the_sandbox(
    tmp_path: Path, listeners: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the test above would prove nothing."""
    from tests.knowledge.ingestion import hostile_parsers

    monkeypatch.setenv("ARCHWAY_TEST_SECRET", "s3cret")
    path = tmp_path / "request.json"
    path.write_text(json.dumps(listeners), encoding="utf-8")
    text = hostile_parsers.report(Source(path, "request.json", "text/plain"), ParseContext()).text
    worked = json.loads(text.removeprefix("worked: "))
    assert {
        "connect to the database socket",
        "open a network connection",
        "read the key file",
        "read /etc/passwd",
        "write next to the key",
        "see the owner's environment",
        "signal the owner",
    } <= set(worked)


def test_parser_that_loops_is_killed_by_its_cpu_limit(source: Source) -> None:
    started = time.monotonic()
    assert code_of(source, "loops", cpu_seconds=1) == "too_slow"
    assert time.monotonic() - started < 10


def test_parser_that_sleeps_is_killed_by_the_clock(source: Source) -> None:
    assert code_of(source, "sleeps", wall_seconds=0.3) == "too_slow"


def test_parser_that_allocates_without_end_is_stopped_at_the_memory_limit(source: Source) -> None:
    assert code_of(source, "allocates", memory_mb=128) == "out_of_memory"


def test_library_that_aborts_for_lack_of_memory_is_told_apart_from_a_crash(source: Source) -> None:
    assert code_of(source, "allocates_in_library") == "out_of_memory"


@pytest.mark.parametrize("parser", ["crashes", "vanishes", "lies"])
def test_parser_that_dies_or_lies_is_a_crash_and_not_ours(source: Source, parser: str) -> None:
    assert code_of(source, parser) == "parser_crashed"
    assert parse_file(source).text == "hello"


def test_unexpected_exception_is_logged_without_path_or_words_of_the_document(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert code_of(source, "raises") == "parser_crashed"
    assert "KeyError at " in caplog.text
    assert "hostile_parsers.py" in caplog.text
    assert "机密" not in caplog.text
    assert str(source.path) not in caplog.text


def test_refusal_of_a_parser_keeps_its_code_and_its_sentence(source: Source) -> None:
    with pytest.raises(ParseError) as caught:
        run(source, "refuses")
    assert caught.value.code == "too_many_cells"
    assert str(caught.value) == "The table holds more than 7 cells."


def test_parser_that_fills_the_disk_is_stopped_and_its_files_are_gone(source: Source) -> None:
    assert code_of(source, "fills_disk", file_mb=2) in ("parser_crashed", "too_slow")
    assert run(source, "scratch_files").text == "source stderr"


def test_what_one_file_leaves_behind_the_next_does_not_find(source: Source) -> None:
    run(source, "scratch_files")
    assert run(source, "scratch_files").text == "source stderr"


def test_every_field_crosses_the_border_and_unstorable_characters_do_not(source: Source) -> None:
    document = run(source, "everything")
    heading, paragraph, table = document.blocks
    assert (heading.text, heading.level) == ("标题", 1)
    assert paragraph.text == "ab \ufffd 😀"
    assert (paragraph.heading_path, paragraph.page, paragraph.bbox, paragraph.image) == (
        ("标题",),
        2,
        (1.5, 2.0, 3.0, 4.0),
        "k",
    )
    assert (table.sheet, table.rows, table.slide) == ("表", (1, 2), 3)
    assert all(document.text[block.start : block.end] == block.text for block in document.blocks)
    assert (document.title, document.page_count, document.metadata) == ("t", 3, {"k": "v"})
    assert [warning.split(":")[0] for warning in document.warnings] == ["w", "unstorable_characters"]
    assert document.images[0].key == hashlib.sha256(b"\x89PNG").hexdigest()


def test_progress_comes_through_but_not_more_than_five_times_a_second(source: Source) -> None:
    seen: list[tuple[int, int]] = []
    started = time.monotonic()
    parse_file(source, on_progress=lambda *step: seen.append(step), parser=f"{HOSTILE}:reports_progress")
    assert seen
    assert len(seen) <= (time.monotonic() - started) / 0.2 + 1
    assert all(total == 5000 for _, total in seen)


def test_cancelling_stops_the_parser_and_the_next_file_is_read(source: Source) -> None:
    asked = threading.Event()

    def on_progress(done: int, total: int) -> None:
        asked.set()

    with pytest.raises(ParseError) as caught:
        parse_file(source, on_progress=on_progress, should_stop=asked.is_set, parser=f"{HOSTILE}:sleeps")
    assert caught.value.code == "cancelled"
    assert parse_file(source).text == "hello"


def test_callback_that_raises_ends_the_child_and_its_error_comes_out(source: Source) -> None:
    class LostClaim(Exception):
        pass

    def on_progress(done: int, total: int) -> None:
        raise LostClaim

    with pytest.raises(LostClaim):
        parse_file(source, on_progress=on_progress, parser=f"{HOSTILE}:sleeps")
    assert parse_file(source).text == "hello"


def test_file_without_text_is_no_success(tmp_path: Path) -> None:
    path = tmp_path / "stored"
    path.write_text(" \n\u200b\n…\n", encoding="utf-8")
    with pytest.raises(ParseError) as caught:
        parse_file(Source(path, "a.txt", "text/plain"))
    assert caught.value.code == "no_text"


def test_missing_file_is_told_without_its_path(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        parse_file(Source(tmp_path / "gone", "a.txt", "text/plain"))
    assert caught.value.code == "file_missing"
    assert str(tmp_path) not in str(caught.value)


def test_unknown_type_is_refused_before_any_process_starts(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        parse_file(Source(tmp_path / "gone", "a.bin", "application/x-unknown"))
    assert caught.value.code == "unsupported_type"


def test_several_threads_parse_at_the_same_time(source: Source) -> None:
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(parse_file(source).text)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert texts == ["hello"] * 3


def test_forked_worker_starts_its_own_server(source: Source) -> None:
    """As a Celery prefork child does, which may not use multiprocessing."""
    parse_file(source)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, parse_file(source).text.encode())
        for server in sandbox._idle[os.getpid(), ""]:
            server.close()
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 100) == b"hello"
    os.close(reading)
    os.waitpid(child, 0)
    assert parse_file(source).text == "hello"


def test_file_is_read_though_all_waiting_processes_were_killed(source: Source) -> None:
    parse_file(source)
    server = sandbox._take()
    waiting = _descendants(server._process.pid)
    assert waiting
    for child in waiting:
        os.kill(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(map(_runs, waiting)) and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    sandbox._give_back(server)
    assert [parse_file(source).text for _ in range(3)] == ["hello"] * 3


def test_readers_that_end_are_replaced_and_do_not_pile_up(source: Source) -> None:
    for _ in range(12):
        parse_file(source)
    server = sandbox._take()
    deadline = time.monotonic() + 10
    while (count := sum(map(_runs, _descendants(server._process.pid)))) != SPARES and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    sandbox._give_back(server)
    assert count == SPARES


def test_children_die_when_the_worker_is_killed(source: Source, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from knowledge.ingestion.blocks import Source;"
        "from knowledge.ingestion.sandbox import parse_file;"
        f"parse_file(Source(Path({str(source.path)!r}), 'a', 'text/plain'),"
        "on_progress=lambda *step: print('running', flush=True),"
        f"parser={HOSTILE + ':sleeps'!r})"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"running\n"
    family = _descendants(worker.pid)
    assert len(family) >= 2  # the server, the parser and, soon, the process that waits for the next file
    worker.kill()
    worker.wait()
    worker.stdout.close()
    deadline = time.monotonic() + 10
    while any(map(_runs, family)) and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert not any(map(_runs, family))


def test_reader_that_counts_nothing_gives_a_sign_of_life_all_the_same(source: Source) -> None:
    told = threading.Event()

    def on_progress(done: int, total: int) -> None:
        assert (done, total) == (0, 0)
        told.set()

    with pytest.raises(ParseError):
        parse_file(source, on_progress=on_progress, should_stop=told.is_set, parser=f"{HOSTILE}:sleeps_unseen")
    assert told.is_set()


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *_descendants(int(child))]
    return found


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
