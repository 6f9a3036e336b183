"""Rotation: every row under the new key, verified; the old key retired; killed and restarted without a loss."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from portal.embedded import locations
from portal.kernel.errors import Conflict, Invalid, Unavailable
from portal.kernel.models import AuditEntry, Credential, MasterKey
from portal.kernel.secrets import keyring, reveal, rotation, rows, verbs
from tests.portal.kernel.secrets.conftest import Configure, new_key
from tests.support.key_services import KeyService
from tests.support.people import World
from tests.support.running import until

HOST = "api.example.com"
ROOT = locations.REPOSITORY


def values(count: int) -> dict[str, str]:
    """Reference → secret of that many new credentials of the installation."""
    return {
        verbs.create(None, name=f"c{number}", value=f"secret-{number:04}-of-rotation", host=HOST, workspace_id=None)
        .reference: f"secret-{number:04}-of-rotation"
        for number in range(count)
    }  # fmt: skip


def revealed(references: dict[str, str]) -> dict[str, str]:
    return {reference: reveal(reference, host=HOST, purpose="test").expose() for reference in references}


@pytest.fixture
def two_keys(db: None, key_file: Path, configure: Configure) -> str:
    """Three rows under an old key, with a new one before it in the file; returns the old key's id."""
    configure(MASTER_KEY_FILE=str(key_file))
    values(3)
    old = keyring.keyring().current.key_id
    key_file.write_text(f"{new_key()}\n{key_file.read_text()}")
    return old


def test_all_rows_come_under_the_new_key_with_fresh_data_keys_and_the_old_key_is_retired(two_keys: str) -> None:
    before = {row.pk: (bytes(row.ciphertext), bytes(row.wrapped_key)) for row in Credential.objects.all()}
    shown: list[int] = []
    outcome = rotation.rotate(batch=2, on_progress=lambda now: shown.append(now.resealed))
    new = keyring.keyring().current.key_id
    assert (outcome.total, outcome.resealed, outcome.left, outcome.retired) == (3, 3, [], [two_keys])
    assert shown == [0, 2, 3]
    for row in Credential.objects.all():
        assert row.key_id == new
        assert before[row.pk][0] != bytes(row.ciphertext)
        assert before[row.pk][1] != bytes(row.wrapped_key)
        assert rows.take(row)[0].endswith("of-rotation")
    assert MasterKey.objects.get(key_id=two_keys).state == MasterKey.State.RETIRED
    actions = list(AuditEntry.objects.filter(action__startswith="master_key.").values_list("action", flat=True))
    assert sorted(actions) == ["master_key.reseal"] * 2 + ["master_key.retire", "master_key.rotate"]


def test_both_keys_open_while_the_rotation_has_not_run(two_keys: str) -> None:
    values_now = {row.reference: rows.take(row)[0] for row in Credential.objects.all()}
    assert revealed(values_now) == values_now
    verbs.create(None, name="new", value="sealed-under-the-new-key", host=HOST, workspace_id=None)
    assert set(rotation.usage().values()) == {1, 3}


def test_a_process_that_still_has_the_retired_key_seals_nothing_with_it(
    two_keys: str, key_file: Path, configure: Configure, tmp_path: Path
) -> None:
    rotation.rotate()
    stale = tmp_path / "stale.key"
    stale.write_text(key_file.read_text().splitlines()[1])
    configure(MASTER_KEY_FILE=str(stale))
    with pytest.raises(Conflict) as caught:
        verbs.create(None, name="late", value="sealed-by-a-stale-process", host=HOST, workspace_id=None)
    assert caught.value.code == "master_key_retired"
    with pytest.raises(Invalid) as unknown:
        rows.take(Credential.objects.all()[0])
    assert unknown.value.code == "master_key_unknown"


def test_a_row_that_can_not_be_opened_stays_as_it_is_and_keeps_its_key_alive(two_keys: str) -> None:
    broken = Credential.objects.order_by("pk")[1]
    Credential.objects.filter(pk=broken.pk).update(ciphertext=bytes(broken.ciphertext)[:-1])
    outcome = rotation.rotate(batch=1)
    assert outcome.left == [("kernel.Credential", str(broken.pk), "credential_unreadable")]
    assert (outcome.resealed, outcome.retired) == (2, [])
    assert MasterKey.objects.get(key_id=two_keys).state == MasterKey.State.ACTIVE


def test_everything_can_be_sealed_anew_under_the_same_key_and_goes_on_after_a_stop(
    db: None, key_file: Path, configure: Configure
) -> None:
    configure(MASTER_KEY_FILE=str(key_file))
    values(4)
    before = {row.pk: bytes(row.ciphertext) for row in Credential.objects.all()}

    def stop(outcome: rotation.Outcome) -> None:
        if outcome.resealed == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotation.rotate(batch=1, everything=True, on_progress=stop)
    # The stopped run is remembered: the next goes on with it, asked for or not.
    outcome = rotation.rotate(batch=1)
    assert outcome.resealed == 2
    assert all(bytes(row.ciphertext) != before[row.pk] for row in Credential.objects.all())
    assert rotation.rotate().total == 0


def test_from_a_file_to_a_key_service_and_an_outage_in_the_middle(
    db: None, key_file: Path, configure: Configure, service: KeyService
) -> None:
    kms = keyring.addresses()[0]
    configure(MASTER_KEY_KMS="", MASTER_KEY_FILE=str(key_file))
    known = values(3)
    old = keyring.keyring().current.key_id
    configure(MASTER_KEY_KMS=kms, MASTER_KEY_OLD=[key_file.as_uri()])

    def outage(outcome: rotation.Outcome) -> None:
        service.fault = "down" if outcome.resealed == 1 else ""

    with pytest.raises(Unavailable):
        rotation.rotate(batch=1, on_progress=outage)
    service.fault = ""
    assert revealed(known) == known
    outcome = rotation.rotate()
    assert (outcome.resealed, outcome.retired) == (2, [old])
    configure(MASTER_KEY_OLD=[])
    keyring.data_keys.forget()
    assert revealed(known) == known
    assert AuditEntry.objects.filter(action="credential.reveal", detail__key_service=True).count() >= 3


def test_the_command_makes_a_new_generated_key_and_forgets_the_old_one(
    db: None, configure: Configure, tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    generated = tmp_path / "secrets.json"
    key = base64.urlsafe_b64encode(os.urandom(32)).decode()
    generated.write_text(json.dumps({"secret_key": "x", "master_key": key}))
    settings.DATA_DIR = tmp_path
    configure(GENERATED_SECRETS=str(generated))
    known = values(2)
    call_command("rotate_master_key", "--new-key", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["total"], said["resealed"], said["left"], len(said["retired"])) == (2, 2, [], 1)
    kept = json.loads(generated.read_text())["master_key"]
    assert key not in kept
    assert "," not in kept
    assert revealed(known) == known


def test_the_command_makes_no_key_where_the_operator_keeps_it(db: None, key_file: Path, configure: Configure) -> None:
    configure(MASTER_KEY_FILE=str(key_file))
    with pytest.raises(CommandError, match="key file"):
        call_command("rotate_master_key", "--new-key")


def _somebody_waits_for_us() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])


def test_a_rotation_that_is_killed_half_way_and_started_again_loses_nothing(
    child_environment: dict[str, str], key_file: Path, configure: Configure
) -> None:
    configure(MASTER_KEY_FILE=str(key_file))
    known = values(40)
    old = keyring.keyring().current.key_id
    key_file.write_text(f"{new_key()}\n{key_file.read_text()}")
    environment = {**child_environment, "ARCHWAY_MASTER_KEY_FILE": str(key_file)}
    command = [sys.executable, "manage.py", "rotate_master_key", "--batch", "7", "--json"]
    blocker = Credential.objects.order_by("pk")[23]
    with transaction.atomic():
        Credential.objects.select_for_update().get(pk=blocker.pk)
        killed = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until(lambda: _somebody_waits_for_us() or killed.poll() is not None, "the rotation reaches the locked row")
        assert killed.poll() is None, killed.communicate()
        # It hangs in the middle of a batch, with a row half moved.
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    counts = rotation.usage()
    assert 23 <= 40 - counts[old] <= 24
    assert revealed(known) == known
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    said = json.loads(again.stdout)
    assert said["resealed"] == said["total"] == counts[old]
    assert said["retired"] == [old]
    key_file.write_text(key_file.read_text().splitlines()[0])
    assert revealed(known) == known


def test_a_second_rotation_at_the_same_time_is_refused(
    child_environment: dict[str, str], key_file: Path, monkeypatch: pytest.MonkeyPatch, configure: Configure
) -> None:
    configure(MASTER_KEY_FILE=str(key_file))
    monkeypatch.setattr(rotation, "_LOCK_SECONDS", 0.1)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [rotation._LOCK])
        with pytest.raises(Conflict) as caught:
            rotation.rotate()
    other.close()
    assert caught.value.code == "rotation_running"
    assert rotation.rotate().total == 0


def test_resealing_one_credential_changes_its_seal_and_not_its_secret(world: World, key_file: Path) -> None:
    admin = world.principal(world.admin)
    row = verbs.create(admin, name="one", value="just-this-one-secret", host=HOST, workspace_id=world.workspace.pk)
    sealed = bytes(row.ciphertext)
    again = verbs.reseal(admin, row)
    assert bytes(again.ciphertext) != sealed
    assert rows.take(again)[0] == "just-this-one-secret"
