"""Which folders the process that reads a stranger's file may see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from knowledge.ingestion.confinement import code_folders


def test_folder_of_code_behind_a_link_is_open_by_both_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real" / "site-packages"
    real.mkdir(parents=True)
    linked = tmp_path / ".venv"
    linked.symlink_to(tmp_path / "real")
    monkeypatch.setattr(sys, "path", [*sys.path, str(linked / "site-packages")])
    assert {real, linked / "site-packages"} <= set(code_folders())
