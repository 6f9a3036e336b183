"""A master key in Alibaba Cloud KMS (API 2016-01-20).

`aliyun-kms://REGION/KEY`, KEY being a key id or `alias/NAME`; `?endpoint=https://…` for a VPC or dedicated gateway.
Data keys are made by the service, because its parameters travel in the address: none of them is a secret that way.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import httpx
from django.conf import settings

from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import box
from portal.kernel.secrets.sources.aliyun_signature import signed_headers
from portal.kernel.secrets.sources.contract import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    MasterKeySource,
    context_label,
    misconfigured,
    refused,
    safe_endpoint,
    unavailable,
)

_NAME = "Alibaba Cloud KMS"
_VERSION = "2016-01-20"


class AliyunKey:
    """One key of Alibaba Cloud KMS."""

    remote = True

    def __init__(self, region: str, key: str, endpoint: str = "") -> None:
        self._key = key
        self._endpoint = endpoint or f"https://kms.{region}.aliyuncs.com"
        self.key_id = f"aliyun-kms:{region}/{key}"
        self._client = httpx.Client(timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS))

    def __repr__(self) -> str:
        return f"AliyunKey({self.key_id})"

    def new_key(self, context: bytes) -> tuple[bytes, bytes]:
        answer = self._ask("GenerateDataKey", KeyId=self._key, KeySpec="AES_256", EncryptionContext=_bound(context))
        return _plaintext(answer), str(answer.get("CiphertextBlob", "")).encode()

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        try:
            blob = wrapped.decode("ascii")
        except UnicodeDecodeError:
            raise box.unreadable() from None
        return _plaintext(self._ask("Decrypt", CiphertextBlob=blob, EncryptionContext=_bound(context)))

    def _ask(self, action: str, **query: str) -> dict[str, Any]:
        account = settings.ARCHWAY
        if not account["ALIYUN_KEY_ID"] or not account["ALIYUN_KEY_SECRET"]:
            raise refused(_NAME)
        headers = {
            "x-acs-action": action,
            "x-acs-version": _VERSION,
            "x-acs-date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "x-acs-signature-nonce": secrets.token_hex(16),
            "accept": "application/json",
        }
        if account["ALIYUN_SECURITY_TOKEN"]:
            headers["x-acs-security-token"] = account["ALIYUN_SECURITY_TOKEN"]
        signed = signed_headers(
            key_id=account["ALIYUN_KEY_ID"],
            key_secret=account["ALIYUN_KEY_SECRET"],
            method="POST",
            host=urlsplit(self._endpoint).netloc,
            path="/",
            query=query,
            body=b"",
            headers=headers,
        )
        try:
            response = self._client.post(f"{self._endpoint}/", params=query, headers=signed)
            answer = response.json()
        except (httpx.HTTPError, ValueError):
            raise unavailable(_NAME) from None
        if not isinstance(answer, dict):
            raise unavailable(_NAME)
        if response.status_code >= 400:
            raise _failure(response.status_code, str(answer.get("Code", "")))
        return answer


def keys(address: SplitResult) -> Sequence[MasterKeySource]:
    """The key of an address. Raises `Invalid` (master_key_invalid)."""
    key = unquote(address.path.lstrip("/"))
    if not address.netloc or not key:
        raise misconfigured("Name the key as aliyun-kms://REGION/KEY.")
    endpoint = parse_qs(address.query).get("endpoint", [""])[0]
    return [AliyunKey(address.netloc, key, safe_endpoint(endpoint) if endpoint else "")]


def _bound(context: bytes) -> str:
    return json.dumps({"archway-row": context_label(context)})


def _plaintext(answer: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(answer["Plaintext"]), validate=True)
    except (KeyError, binascii.Error):
        raise unavailable(_NAME) from None


def _failure(status: int, code: str) -> ArchwayError:
    if status >= 500 or status == 429 or code.startswith(("Throttling", "ServiceUnavailable", "InternalFailure")):
        return unavailable(_NAME)
    # A wrong ciphertext and a wrong context are both invalid parameters there.
    if code.startswith("InvalidParameter") or "Ciphertext" in code:
        return box.unreadable()
    return refused(_NAME)
