"""From which pages a websocket may be opened."""

from __future__ import annotations

import pytest
from django.conf import LazySettings

from channels_app.origin import allowed


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        ("https://kb.example", "kb.example", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("", "kb.example", True),
        ("https://evil.example", "kb.example", False),
        ("https://kb.example.evil.example", "kb.example", False),
        ("https://kb.example:444", "kb.example", False),
        ("https://user@kb.example", "kb.example", False),
        ("null", "kb.example", False),
        ("kb.example", "kb.example", False),
        ("https://portal.example", "kb.example", True),
    ],
)
def test_a_page_may_open_a_socket_only_to_its_own_host(
    settings: LazySettings, origin: str, host: str, may: bool
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://portal.example"]
    assert allowed(origin, host) is may
