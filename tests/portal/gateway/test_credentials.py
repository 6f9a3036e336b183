from __future__ import annotations

import pytest
from pytest_django import Settings

from portal.gateway import credentials
from portal.kernel.errors import Invalid


@pytest.fixture(autouse=True)
def listed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "ENV_CREDENTIALS": ["BGE_KEY", "EMPTY_KEY"]}
    monkeypatch.setenv("BGE_KEY", "sk-bge")
    monkeypatch.setenv("EMPTY_KEY", "")
    monkeypatch.setenv("DJANGO_SECRET", "never")


def test_a_listed_variable_is_the_secret() -> None:
    assert credentials.resolve("env://BGE_KEY") == "sk-bge"


def test_no_reference_means_no_secret() -> None:
    assert credentials.resolve("") == ""


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("env://DJANGO_SECRET", "credential_not_listed"),
        ("env://EMPTY_KEY", "credential_missing"),
        ("env://", "credential_not_listed"),
        ("sk-plain", "credential_unknown"),
        ("file:///etc/passwd", "credential_unknown"),
    ],
)
def test_anything_else_is_refused_without_its_value(reference: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        credentials.resolve(reference)
    assert caught.value.code == code
    assert "never" not in str(caught.value)
    assert "sk-plain" not in str(caught.value)
