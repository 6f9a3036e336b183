from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from pytest_django import Settings

from portal import diagnosis
from portal.kernel.secrets import verbs

NAMES = [
    "python",
    "settings",
    "data_folder",
    "disk",
    "database",
    "migrations",
    "clock",
    "master_key",
    "redis",
    "workers",
    "embedding",
    "parser_isolation",
    "libreoffice",
    "ocr",
    "mail",
]


@pytest.mark.django_db
def test_doctor_prints_one_json_object_of_the_documented_shape(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError):  # no worker runs here
        call_command("doctor", json=True)
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"ok", "checks"}
    assert report["ok"] is False
    assert [check["name"] for check in report["checks"]] == NAMES
    assert all(set(check) == {"name", "ok", "detail", "advice"} for check in report["checks"])


@pytest.mark.django_db
def test_what_is_not_met_comes_with_advice_and_what_works_is_said_so() -> None:
    found = {check.name: check for check in diagnosis.examine()}
    assert found["database"].ok
    assert "vector 0." in found["database"].detail
    assert found["migrations"].ok
    assert found["redis"].ok
    assert not found["workers"].ok
    assert all(check.advice for check in found.values() if not check.ok)


@pytest.mark.django_db
def test_a_master_key_that_is_missing_is_named_and_a_rotation_that_is_not_finished_too(
    tmp_path: Path, settings: Settings
) -> None:
    def look() -> diagnosis.Check:
        return {check.name: check for check in diagnosis.examine()}["master_key"]

    assert look().ok
    old, new = base64.b64encode(b"o" * 32).decode(), base64.b64encode(b"n" * 32).decode()
    file = tmp_path / "key"
    file.write_text(old)
    settings.ARCHWAY = {**settings.ARCHWAY, "MASTER_KEY_FILE": str(file)}
    verbs.create(None, name="x", value="a-secret-of-doctor", host="h.example", workspace_id=None)
    file.write_text(f"{new}\n{old}")
    unfinished = look()
    assert unfinished.ok
    assert "rotate_master_key" in unfinished.advice
    file.write_text(new)
    missing = look()
    assert not missing.ok
    assert "ARCHWAY_MASTER_KEY_OLD" in missing.advice
    file.write_text("no key")
    assert not look().ok


def test_servers_that_are_down_are_named_with_the_command_that_starts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHWAY_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")
    found = {check.name: check for check in diagnosis.examine()}
    for name in ("database", "redis"):
        assert not found[name].ok
        assert "make up" in found[name].advice
    assert "migrations" not in found


def test_a_folder_that_lets_others_in_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHWAY_DATA_DIR", str(tmp_path))
    (tmp_path / "files").mkdir(mode=0o755)
    tmp_path.chmod(0o700)
    assert diagnosis._folder().ok
    tmp_path.chmod(0o755)
    assert diagnosis._folder().detail == "files"
    assert not diagnosis._folder().ok
    assert "chmod" in diagnosis._folder().advice


@override_settings(
    MAIL_CONFIGURED=True,
    EMAIL_BACKEND="django.core.mail.backends.smtp.EmailBackend",
    EMAIL_HOST="127.0.0.1",
    EMAIL_PORT=1,
)
def test_a_mail_server_that_does_not_answer_is_reported() -> None:
    check = diagnosis._mail()
    assert not check.ok
    assert "127.0.0.1:1" in check.detail
