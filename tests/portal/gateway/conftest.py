"""The real model, built once for the tests of the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.gateway.local.model import E5


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("模型 models")


@pytest.fixture(scope="session")
def model(model_folder: Path) -> E5:
    return E5(model_folder, threads=1)
