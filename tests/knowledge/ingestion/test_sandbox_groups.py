"""Files of one group in one process: what is shared, and what a file can not do to the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from knowledge.ingestion.blocks import Source
from knowledge.ingestion.sandbox import SandboxLimits, isolation, parse_file
from portal.kernel.errors import ParseError

HOSTILE = "tests.knowledge.ingestion.hostile_parsers"
ALICE, BOB = "base 1 alice", "base 1 bob"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "stored"
    path.write_text("hello", encoding="utf-8")
    return Source(path, "a.txt", "text/plain")


@pytest.fixture(autouse=True)
def _only_with_landlock() -> None:
    if "landlock" not in isolation():
        pytest.skip("without Landlock every file has its own process")


def process_of(source: Source, group: str | None, parser: str = "names_its_process", **limits: float) -> str:
    given = SandboxLimits(**limits)  # type: ignore[arg-type]
    return parse_file(source, given, parser=f"{HOSTILE}:{parser}", group=group).text.split()[1]


def test_files_of_one_group_share_a_process_and_others_do_not(source: Source) -> None:
    first = process_of(source, ALICE)
    alone = process_of(source, None)
    second = process_of(source, ALICE)
    assert first == second
    assert alone != first
    assert process_of(source, BOB) not in (first, alone)
    assert process_of(source, ALICE) != first


def test_process_takes_no_more_files_than_is_allowed(source: Source) -> None:
    names = [process_of(source, ALICE, files=2) for _ in range(4)]
    assert names[0] == names[1] != names[2] == names[3]
    assert len({process_of(source, ALICE, files=1) for _ in range(2)}) == 2


def test_process_that_refused_a_file_reads_no_other(source: Source) -> None:
    first = process_of(source, ALICE)
    with pytest.raises(ParseError) as caught:
        process_of(source, ALICE, "refuses")
    assert caught.value.code == "too_many_cells"
    assert process_of(source, ALICE) != first


def test_other_limits_mean_another_process(source: Source) -> None:
    assert process_of(source, ALICE) != process_of(source, ALICE, memory_mb=500)


def test_links_that_a_file_leaves_behind_lead_the_next_one_nowhere(source: Source, tmp_path: Path) -> None:
    victim = tmp_path / "key"
    victim.write_text("secret", encoding="utf-8")
    trap = tmp_path / "trap"
    trap.write_text(str(victim), encoding="utf-8")
    recognised = tmp_path / "found"
    recognised.write_text("{}", encoding="utf-8")
    first = process_of(Source(trap, "trap.txt", "text/plain"), ALICE, "leaves_links")
    assert process_of(Source(source.path, "a.txt", "text/plain", recognised), ALICE) == first
    assert victim.read_text(encoding="utf-8") == "secret"


def test_what_was_recognised_of_one_file_is_not_there_for_the_next(source: Source, tmp_path: Path) -> None:
    recognised = tmp_path / "found"
    recognised.write_text("{}", encoding="utf-8")
    given = Source(source.path, "a.txt", "text/plain", recognised)
    files = [parse_file(one, parser=f"{HOSTILE}:scratch_files", group=ALICE).text for one in (given, source)]
    assert files == ["recognised source stderr", "source stderr"]


def test_memory_that_a_file_leaves_behind_does_not_fail_the_next_one(source: Source) -> None:
    first = process_of(source, ALICE, "leaves_memory", memory_mb=1000)
    assert process_of(source, ALICE, "needs_memory", memory_mb=1000) != first


def test_processor_time_is_counted_for_each_file(source: Source) -> None:
    names = {process_of(source, ALICE, "takes_time", cpu_seconds=1) for _ in range(2)}
    assert len(names) == 1


def test_file_is_read_though_the_process_that_stayed_was_killed(source: Source) -> None:
    first = process_of(source, ALICE)
    os.kill(int(first), signal.SIGKILL)
    assert process_of(source, ALICE) != first
