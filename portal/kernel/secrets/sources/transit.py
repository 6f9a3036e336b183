"""A master key in a transit engine that speaks HashiCorp Vault's protocol (Vault, OpenBao).

`transit://HOST[:PORT]/MOUNT/KEY`, or `transit+http://` for an agent on this machine; `?namespace=NAME`. The key must
be of an authenticated type (`aes256-gcm96`): the row's identity is its associated data. The token is read from
VAULT_TOKEN_FILE at each call, because agents renew it there, or from VAULT_TOKEN.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote

import httpx
from django.conf import settings

from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import box
from portal.kernel.secrets.sources.contract import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    MasterKeySource,
    misconfigured,
    refused,
    safe_endpoint,
    unavailable,
)

_NAME = "The transit engine"


class TransitKey:
    """One key of a transit engine. The engine's own versions of it stay one key: the wrapped key names its version."""

    remote = True

    def __init__(self, endpoint: str, mount: str, key: str, namespace: str = "") -> None:
        self._base = f"{endpoint}/v1/{quote(mount)}"
        self._key = quote(key, safe="")
        self._namespace = namespace
        place = endpoint.partition("://")[2]
        self.key_id = f"transit:{place}/{f'{namespace}/' if namespace else ''}{mount}/{key}"
        self._client = httpx.Client(timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS))

    def __repr__(self) -> str:
        return f"TransitKey({self.key_id})"

    def new_key(self, context: bytes) -> tuple[bytes, bytes]:
        key = os.urandom(box.KEY_BYTES)
        data = self._ask("encrypt", {"plaintext": _encoded(key), "associated_data": _encoded(context)})
        return key, str(data.get("ciphertext", "")).encode()

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        try:
            ciphertext = wrapped.decode("ascii")
        except UnicodeDecodeError:
            raise box.unreadable() from None
        data = self._ask("decrypt", {"ciphertext": ciphertext, "associated_data": _encoded(context)})
        try:
            return base64.b64decode(str(data["plaintext"]), validate=True)
        except (KeyError, binascii.Error):
            raise unavailable(_NAME) from None

    def _ask(self, verb: str, body: dict[str, str]) -> dict[str, Any]:
        headers = {"X-Vault-Token": _token(), "X-Vault-Request": "true"}
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        try:
            response = self._client.post(f"{self._base}/{verb}/{self._key}", json=body, headers=headers)
            answer = response.json()
        except (httpx.HTTPError, ValueError):
            raise unavailable(_NAME) from None
        if response.status_code >= 400:
            raise _failure(response.status_code, answer)
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
            raise unavailable(_NAME)
        data: dict[str, Any] = answer["data"]
        return data


def keys(address: SplitResult) -> Sequence[MasterKeySource]:
    """The key of an address. Raises `Invalid` (master_key_invalid)."""
    mount, _, key = unquote(address.path.strip("/")).rpartition("/")
    if not address.netloc or not mount or not key:
        raise misconfigured("Name the key as transit://HOST/MOUNT/KEY.")
    scheme = "http" if address.scheme.endswith("+http") else "https"
    namespace = parse_qs(address.query).get("namespace", [""])[0]
    return [TransitKey(safe_endpoint(f"{scheme}://{address.netloc}"), mount, key, namespace)]


def _token() -> str:
    if file := settings.ARCHWAY["VAULT_TOKEN_FILE"]:
        try:
            return Path(file).read_text("utf-8").strip()
        except OSError:
            raise refused(_NAME) from None
    token: str = settings.ARCHWAY["VAULT_TOKEN"]
    return token


def _failure(status: int, answer: Any) -> ArchwayError:
    if status >= 500 or status == 429:
        return unavailable(_NAME)
    words = " ".join(map(str, answer.get("errors", []))) if isinstance(answer, dict) else ""
    # "invalid ciphertext: …" and "cipher: message authentication failed"; "encryption key not found" is another matter.
    return box.unreadable() if status == 400 and "cipher" in words else refused(_NAME)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
