"""Temporary folders of fork servers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from knowledge.ingestion.scratch import YOUNG, make_folder, sweep


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def age(folder: Path) -> None:
    past = folder.stat().st_mtime - YOUNG - 1
    os.utime(folder, (past, past))


def test_folder_of_a_dead_owner_is_removed_and_that_of_a_living_one_stays() -> None:
    dead, lock = make_folder()
    (dead / "scratch").mkdir()
    living, kept = make_folder()
    age(dead)
    age(living)
    os.close(lock)
    assert sweep() == 1
    assert not dead.exists()
    assert living.exists()
    os.close(kept)


def test_young_folder_stays_even_without_a_lock(tmp_path: Path) -> None:
    (tmp_path / "archway-parse-young").mkdir()
    assert sweep() == 0


def test_folder_is_private() -> None:
    folder, lock = make_folder()
    assert folder.stat().st_mode & 0o077 == 0
    os.close(lock)
