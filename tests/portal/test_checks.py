"""`manage.py check` in production says in plain words what is missing."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPLETE = {
    "ARCHWAY_ENV": "production",
    "DATABASE_URL": "postgresql://archway:secret@db.example/archway",
    "REDIS_URL": "redis://:secret@redis.example/0",
    "ARCHWAY_SECRET_KEY": "x" * 50,
    "ARCHWAY_EMBEDDING_TOKEN": "y" * 40,
    "ARCHWAY_ALLOWED_HOSTS": "portal.example",
    "ARCHWAY_MAIL_URL": "none",
}


def check(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARCHWAY_")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        kept.pop(name, None)
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**kept, "ARCHWAY_DATA_DIR": str(folder / "data"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "master.key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    return path


def test_a_complete_production_environment_passes(tmp_path: Path, key_file: Path) -> None:
    result = check(tmp_path, **COMPLETE, ARCHWAY_MASTER_KEY_FILE=str(key_file))
    assert result.returncode == 0, result.stderr


def test_an_empty_production_environment_names_everything_that_is_missing(tmp_path: Path) -> None:
    result = check(tmp_path, ARCHWAY_ENV="production")
    assert result.returncode != 0
    for name in (
        "DATABASE_URL",
        "REDIS_URL",
        "ARCHWAY_SECRET_KEY",
        "ARCHWAY_EMBEDDING_TOKEN",
        "ARCHWAY_ALLOWED_HOSTS",
        "ARCHWAY_MAIL_URL",
        "ARCHWAY_MASTER_KEY_FILE",
    ):
        assert name in result.stderr
    assert not (tmp_path / "data" / "secrets.json").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ARCHWAY_MASTER_KEY", "a" * 43, "environment alone"),
        ("ARCHWAY_MASTER_KEY_KMS", "env://ARCHWAY_MASTER_KEY", "ARCHWAY_MASTER_KEY_KMS"),
        ("ARCHWAY_MASTER_KEY_KMS", "ftp://somewhere/key", "aws-kms://"),
        ("ARCHWAY_MASTER_KEY_KMS", "transit+http://vault.example/transit/key", "https://"),
    ],
)
def test_a_key_in_the_environment_or_an_address_that_is_none_is_refused(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    environment = {"ARCHWAY_MASTER_KEY": "a" * 43, **COMPLETE, name: value}
    result = check(tmp_path, **environment)
    assert result.returncode != 0
    assert said in result.stderr
    assert "a" * 43 not in result.stderr


def test_a_key_service_is_enough_and_old_keys_may_be_of_any_kind(tmp_path: Path) -> None:
    result = check(
        tmp_path,
        **COMPLETE,
        ARCHWAY_MASTER_KEY=base64.b64encode(b"k" * 32).decode(),
        ARCHWAY_MASTER_KEY_KMS="aws-kms://eu-central-1/alias/archway",
        ARCHWAY_MASTER_KEY_OLD="env://ARCHWAY_MASTER_KEY",
    )
    assert result.returncode == 0, result.stderr


def test_a_key_file_without_a_key_is_refused(tmp_path: Path, key_file: Path) -> None:
    key_file.write_text("not a key")
    result = check(tmp_path, **COMPLETE, ARCHWAY_MASTER_KEY_FILE=str(key_file))
    assert result.returncode != 0
    assert "E023" in result.stderr
    assert "not a key" not in result.stderr


def test_a_master_key_inside_the_data_folder_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "data" / "master.key"
    inside.parent.mkdir()
    inside.write_bytes(b"k" * 32)
    result = check(tmp_path, **COMPLETE, ARCHWAY_MASTER_KEY_FILE=str(inside))
    assert "inside the data folder" in result.stderr


def test_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    assert "must be 'development' or 'production'" in check(tmp_path, ARCHWAY_ENV="staging").stderr
