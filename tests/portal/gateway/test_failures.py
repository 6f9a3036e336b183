"""Each way in which a provider fails: a stable code, a plain sentence, a recorded outcome, and no word of theirs."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from portal.gateway import calls, chat
from portal.gateway.chat import Caller, ChatRequest
from portal.gateway.models import ModelEndpoint, UsageRecord
from portal.kernel.errors import ArchwayError, Invalid, Unavailable
from tests.support.certificates import self_signed
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint

SECRET = "sk-never-to-be-seen-12345"
HELLO = ChatRequest([{"role": "user", "content": "Hello there"}])
OUTCOME = UsageRecord.Outcome


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are tested elsewhere."""
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.001)


def failure(caller: Caller, endpoint: ModelEndpoint, *, streamed: bool) -> tuple[ArchwayError, UsageRecord]:
    with pytest.raises(ArchwayError) as caught:
        if streamed:
            list(chat.stream(caller, endpoint, HELLO))
        else:
            chat.complete(caller, endpoint, HELLO)
    return caught.value, UsageRecord.objects.get()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "doubao"])
@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        ("fail=400", Invalid, "model_refused"),
        ("fail=401", Invalid, "model_auth_failed"),
        ("fail=403", Invalid, "model_auth_failed"),
        ("fail=404", Invalid, "model_not_found"),
        ("fail=429+after=30", Unavailable, "model_rate_limited"),
        ("fail=500", Unavailable, "model_failed"),
        ("fail=503", Unavailable, "model_failed"),
        ("html", Invalid, "model_bad_answer"),
    ],
)
def test_each_refusal_has_its_code_and_is_recorded(
    models: ModelServer,
    caller: Caller,
    provider: str,
    options: str,
    kind: type[ArchwayError],
    code: str,
    streamed: bool,
) -> None:
    error, record = failure(caller, chat_endpoint(models, f"demo+{options}", provider=provider), streamed=streamed)
    assert (type(error), error.code) == (kind, code)
    assert (record.outcome, record.code) == (OUTCOME.ERROR, code)
    assert (record.tokens_in, record.tokens_out) == (0, 0)
    assert record.cost == 0
    assert record.attempts[0]["code"] == code


def test_an_empty_account_is_not_taken_for_haste(models: ModelServer, caller: Caller) -> None:
    error, _ = failure(caller, chat_endpoint(models, "demo+fail=402", provider="openai"), streamed=False)
    assert error.code == "model_account_empty"
    assert len(models.seen) == 1


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_stream_that_breaks_off_is_recorded_with_what_had_come(
    models: ModelServer, caller: Caller, provider: str
) -> None:
    error, record = failure(caller, chat_endpoint(models, "demo+cut=3+tokens=9", provider=provider), streamed=True)
    assert error.code == "model_cut_off"
    assert record.outcome == OUTCOME.BROKEN
    assert record.estimated
    assert record.tokens_in > 0
    assert record.tokens_out >= 3
    assert len(models.seen) == 1


@pytest.mark.parametrize(
    ("options", "outcome", "times"),
    [
        ("hang", OUTCOME.ERROR, {"first_token_seconds": 1, "total_seconds": 1}),
        ("stall=2+tokens=9", OUTCOME.BROKEN, {"timeout_seconds": 1}),
        ("gap=300+tokens=50", OUTCOME.BROKEN, {"total_seconds": 1}),
    ],
    ids=["first token", "between tokens", "in all"],
)
def test_every_wait_has_an_end(
    models: ModelServer, caller: Caller, options: str, outcome: str, times: dict[str, Any]
) -> None:
    error, record = failure(caller, chat_endpoint(models, f"demo+{options}", **times), streamed=True)
    assert error.code == "model_timeout"
    assert record.outcome == outcome
    models.wait_for(lambda seen: seen[-1:] != [] and seen[-1].ended == "gone")


def test_a_host_without_a_name_a_closed_port_and_a_private_address_are_told_apart(
    caller: Caller, settings: Settings
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        refused = chat_endpoint(f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert failure(caller, refused, streamed=True)[0].code == "model_unreachable"
    UsageRecord.objects.all().delete()
    nowhere = chat_endpoint("http://nowhere.invalid", "demo+tag=b")
    assert failure(caller, nowhere, streamed=False)[0].code == "host_unknown"
    UsageRecord.objects.all().delete()
    settings.ARCHWAY = {**settings.ARCHWAY, "EGRESS_ALLOW": []}
    error, record = failure(caller, chat_endpoint("http://127.0.0.2:9", "demo+tag=c"), streamed=False)
    assert error.code == record.code == "url_forbidden"


@contextmanager
def tls_server(folder: Path) -> Iterator[str]:
    """Speaks TLS with a certificate that nobody trusts."""
    certificate, key = self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_an_untrusted_certificate_is_named_as_such(caller: Caller, tmp_path: Path) -> None:
    with tls_server(tmp_path) as url:
        error, _ = failure(caller, chat_endpoint(url), streamed=False)
    assert error.code == "model_tls_failed"


def test_a_redirect_is_not_followed_because_it_would_carry_the_key_along(models: ModelServer, caller: Caller) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(65536)
                head = f"HTTP/1.1 307 Moved\r\nLocation: {models.v1}/chat/completions\r\nContent-Length: 0\r\n\r\n"
                connection.sendall(head.encode())

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        for provider in ("openai", "anthropic"):
            UsageRecord.objects.all().delete()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            error, _ = failure(caller, chat_endpoint(url, provider=provider), streamed=False)
            assert error.code in {"model_unreachable", "model_failed", "model_refused", "model_bad_answer"}
        listener.shutdown(socket.SHUT_RDWR)
    assert models.seen == []


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_the_key_reaches_the_provider_and_nothing_else(
    models: ModelServer,
    caller: Caller,
    provider: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "ENV_CREDENTIALS": ["MODEL_KEY"]}
    monkeypatch.setenv("MODEL_KEY", SECRET)
    endpoint = chat_endpoint(models, "demo+fail=401", provider=provider, credential="env://MODEL_KEY")
    with caplog.at_level(logging.DEBUG):
        error, record = failure(caller, endpoint, streamed=False)
    sent = models.seen[0].headers
    assert SECRET in (sent.get("authorization", "") + sent.get("x-api-key", "") + sent.get("x-goog-api-key", ""))
    assert SECRET not in models.seen[0].path
    shown = "".join(traceback.format_exception(error)) + caplog.text + str(record.__dict__)
    assert SECRET not in shown
