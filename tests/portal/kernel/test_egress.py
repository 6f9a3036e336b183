"""Which addresses may be fetched, and that the judged address is the one connected to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest

from portal.kernel import egress
from portal.kernel.egress import Allowed
from portal.kernel.errors import Invalid, Unavailable

LOOPBACK = Allowed.read(["127.0.0.0/8"])


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/to-metadata":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/")
            self.end_headers()
            return
        if self.path == "/to-relative":
            self.send_response(302)
            self.send_header("Location", "here")
            self.end_headers()
            return
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8000/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fd00::1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[::7f00:1]/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://[fec0::1]/",
        "http://[3fff::1]/",
        "http://192.0.0.8/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://100.64.0.1/",
    ],
)
def test_addresses_off_the_public_internet_are_refused(url: str) -> None:
    with pytest.raises((Invalid, Unavailable)) as caught:
        egress.judge(url, Allowed())
    assert caught.value.code in {"url_forbidden", "host_unknown"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/", "http://", "http://a:b@example.com/", "x"])
def test_other_schemes_and_passwords_are_refused(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        egress.judge(url, Allowed())
    assert caught.value.code == "url_invalid"


def test_the_refusal_names_the_setting_that_allows_it() -> None:
    with pytest.raises(Invalid, match="ARCHWAY_EGRESS_ALLOW"):
        egress.judge("http://10.0.0.1/", Allowed())


@pytest.mark.parametrize("entry", ["10.0.0.0/8", "10.0.0.1", "10.0.0.1:8000"])
def test_the_operator_can_allow_networks_hosts_and_ports(entry: str) -> None:
    assert egress.judge("http://10.0.0.1:8000/", Allowed.read([entry])) == ("10.0.0.1", 8000, "10.0.0.1")


def test_public_addresses_pass() -> None:
    assert egress.is_public(ip_address("8.8.8.8"))
    assert egress.is_public(ip_address("2606:4700::1111"))
    assert not egress.is_public(ip_address("224.0.0.1"))


def test_a_fetch_keeps_the_host_name_and_connects_to_the_judged_address(port: int) -> None:
    with egress.client(timeout=5, allowed=LOOPBACK) as client:
        assert client.get(f"http://localhost:{port}/").text == f"localhost:{port}"


def test_a_redirect_to_a_forbidden_address_is_refused(port: int) -> None:
    with egress.client(timeout=5, allowed=LOOPBACK) as client, pytest.raises(Invalid) as caught:
        client.get(f"http://127.0.0.1:{port}/to-metadata")
    assert caught.value.code == "url_forbidden"


def test_a_relative_redirect_keeps_the_name_that_was_asked_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    with egress.client(timeout=5, allowed=LOOPBACK) as client:
        answer = client.get(f"http://docs.example:{port}/to-relative")
    assert answer.text == f"docs.example:{port}"
    assert str(answer.url) == f"http://docs.example:{port}/here"
