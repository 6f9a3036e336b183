"""HTTP as bytes on a socket: requests that a well-behaved client can not make."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterable

from tests.support.running import PATIENCE, Web

BOUNDARY = "9f2c7d"


def form(name: str, data: bytes, **fields: str) -> bytes:
    """One file and some fields as multipart/form-data with `BOUNDARY`."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return "".join(parts).encode() + head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def head(path: str, **headers: str) -> bytes:
    """The head of a POST with a multipart body."""
    given = {
        "Host": "127.0.0.1",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


def connected(web: Web) -> socket.socket:
    return socket.create_connection((web.host, web.port), timeout=PATIENCE)


def answer(connection: socket.socket) -> http.client.HTTPResponse:
    """The response that comes on a raw connection, its head read."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response


def send_chunks(connection: socket.socket, blocks: Iterable[bytes]) -> bool:
    """Sends blocks in chunked encoding; False when the other side hung up before the end."""
    try:
        for block in blocks:
            connection.sendall(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
    except OSError:
        return False
    return True
