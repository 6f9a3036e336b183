"""Master keys for the tests: files, and key services on loopback."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from portal.kernel.secrets import keyring
from tests.support.key_services import KEY_ID, KEY_SECRET, TOKEN, AliyunKms, AwsKms, KeyService, Transit

SERVICES: dict[str, type[KeyService]] = {"aws": AwsKms, "aliyun": AliyunKms, "transit": Transit}
Configure = Callable[..., None]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    keyring.data_keys.forget()
    yield
    keyring.data_keys.forget()


@pytest.fixture
def configure(settings: Settings) -> Configure:
    """Change what the operator has set."""

    def change(**values: Any) -> None:
        settings.ARCHWAY = {**settings.ARCHWAY, **values}

    return change


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A key file with one key."""
    path = tmp_path / "master.key"
    path.write_text(new_key())
    return path


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


@pytest.fixture(params=sorted(SERVICES))
def service(
    request: pytest.FixtureRequest, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KeyService]:
    """Each key service in turn, configured as the master key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY_SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with ExitStack() as stack:
        made: Any = stack.enter_context(SERVICES[request.param]())
        configure(
            MASTER_KEY_KMS=made.address,
            VAULT_TOKEN=TOKEN,
            VAULT_TOKEN_FILE="",
            ALIYUN_KEY_ID=KEY_ID,
            ALIYUN_KEY_SECRET=KEY_SECRET,
            ALIYUN_SECURITY_TOKEN="",
        )
        yield made
