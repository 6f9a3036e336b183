"""Three key services on loopback, each speaking its own wire protocol: AWS KMS, Alibaba Cloud KMS, a transit engine.

They check the signature or token of every call by rules written here, wrap with a key of their own, and
misbehave on request (`fault`: "" | "down" | "busy" | "denied" | "garbage" | "cut").
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_ID, KEY_SECRET, TOKEN = "AKIDEXAMPLE0000", "wJalr-secret-of-the-tests", "hvs.token-of-the-tests"


class KeyService:
    """`with AwsKms() as service:` serves at `service.url`; `calls` names what was asked, in order."""

    def __init__(self) -> None:
        self.fault = ""
        self.calls: list[str] = []
        self.bodies: list[str] = []
        self.addresses: list[str] = []
        self._key = AESGCM(AESGCM.generate_key(256))
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.bodies.append(body.decode("utf-8", "replace"))
                service.addresses.append(self.path)
                if service.fault == "cut":
                    self.close_connection = True
                    self.connection.close()
                    return
                status, answer = service.answer(self, body)
                data = b"<html>not json" if service.fault == "garbage" else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        raise AssertionError("each service answers in its own words")

    def wrapped(self, key: bytes, context: str) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._key.encrypt(nonce, key, context.encode())

    def unwrapped(self, blob: bytes, context: str) -> bytes | None:
        try:
            return self._key.decrypt(blob[:12], blob[12:], context.encode())
        except (InvalidTag, ValueError):
            return None


class AwsKms(KeyService):
    """`TrentService` in JSON 1.1, behind signature version 4."""

    key = "11111111-2222-3333-4444-555555555555"

    @property
    def address(self) -> str:
        return f"aws-kms://eu-central-1/{self.key}?endpoint={quote(self.url, safe='')}"

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        action = request.headers["X-Amz-Target"].removeprefix("TrentService.")
        self.calls.append(action)
        if self.fault == "down":
            return 500, {"__type": "KMSInternalException", "message": "later"}
        if self.fault == "busy":
            return 400, {"__type": "ThrottlingException", "message": "Rate exceeded"}
        if self.fault == "denied" or not _signed_by_version_4(request, body):
            return 400, {"__type": "AccessDeniedException", "Message": "User is not authorized"}
        asked = json.loads(body)
        context = json.dumps(asked.get("EncryptionContext", {}), sort_keys=True)
        if action == "GenerateDataKey":
            if (asked["KeyId"], asked["KeySpec"]) != (self.key, "AES_256"):
                return 400, {"__type": "NotFoundException", "message": "no such key"}
            key = os.urandom(32)
            blob = base64.b64encode(self.wrapped(key, context)).decode()
            return 200, {"CiphertextBlob": blob, "Plaintext": base64.b64encode(key).decode(), "KeyId": self.key}
        found = self.unwrapped(base64.b64decode(asked["CiphertextBlob"]), context)
        if found is None:
            return 400, {"__type": "InvalidCiphertextException"}
        return 200, {"Plaintext": base64.b64encode(found).decode(), "KeyId": f"arn:aws:kms:::{self.key}"}


def _signed_by_version_4(request: BaseHTTPRequestHandler, body: bytes) -> bool:
    """AWS signature version 4, as its documentation spells it."""
    fields = dict(
        part.strip().split("=", 1)
        for part in request.headers["Authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(",")
    )
    access_key, *scope = fields["Credential"].split("/")
    names = fields["SignedHeaders"].split(";")
    canonical = "\n".join(
        (
            "POST",
            "/",
            "",
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in names),
            "",
            fields["SignedHeaders"],
            hashlib.sha256(body).hexdigest(),
        )
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{request.headers['X-Amz-Date']}\n{'/'.join(scope)}\n{digest}"
    key = f"AWS4{KEY_SECRET}".encode()
    for part in scope:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return access_key == KEY_ID and scope[2:] == ["kms", "aws4_request"] and expected == fields["Signature"]


class AliyunKms(KeyService):
    """API 2016-01-20 behind ACS3-HMAC-SHA256, parameters in the address."""

    key = "key-hzz123456789"

    @property
    def address(self) -> str:
        return f"aliyun-kms://cn-hangzhou/{self.key}?endpoint={quote(self.url, safe='')}"

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        action = request.headers["x-acs-action"]
        self.calls.append(action)
        if self.fault == "down":
            return 503, {"Code": "ServiceUnavailableTemporary", "Message": "later", "RequestId": "r"}
        if self.fault == "busy":
            return 400, {"Code": "Throttling.User", "Message": "slower", "RequestId": "r"}
        if self.fault == "denied":
            return 403, {"Code": "Forbidden.NoPermission", "Message": "no", "RequestId": "r"}
        if request.headers["x-acs-version"] != "2016-01-20" or not _signed_by_acs3(request, body):
            return 400, {"Code": "SignatureDoesNotMatch", "Message": "no", "RequestId": "r"}
        asked = dict(parse_qsl(urlsplit(request.path).query))
        context = json.dumps(json.loads(asked["EncryptionContext"]), sort_keys=True)
        if action == "GenerateDataKey":
            if (asked["KeyId"], asked["KeySpec"]) != (self.key, "AES_256"):
                return 404, {"Code": "Forbidden.KeyNotFound", "Message": "no", "RequestId": "r"}
            key = os.urandom(32)
            blob = base64.b64encode(self.wrapped(key, context)).decode()
            return 200, {"CiphertextBlob": blob, "Plaintext": base64.b64encode(key).decode(), "KeyId": self.key}
        found = self.unwrapped(base64.b64decode(asked["CiphertextBlob"]), context)
        if found is None:
            message = "The specified parameter CiphertextBlob is not valid."
            return 400, {"Code": "InvalidParameter", "Message": message, "RequestId": "r"}
        return 200, {"Plaintext": base64.b64encode(found).decode(), "KeyId": self.key, "RequestId": "r"}


def _signed_by_acs3(request: BaseHTTPRequestHandler, body: bytes) -> bool:
    scheme, _, rest = request.headers["Authorization"].partition(" ")
    fields = dict(part.split("=", 1) for part in rest.split(","))
    path, _, query = request.path.partition("?")
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    lines = ["POST", path, "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in pairs)]
    lines += [f"{name}:{request.headers[name].strip()}" for name in fields["SignedHeaders"].split(";")]
    lines += ["", fields["SignedHeaders"], hashlib.sha256(body).hexdigest()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    expected = hmac.new(KEY_SECRET.encode(), f"{scheme}\n{digest}".encode(), hashlib.sha256).hexdigest()
    return (scheme, fields["Credential"], fields["Signature"]) == ("ACS3-HMAC-SHA256", KEY_ID, expected)


class Transit(KeyService):
    """A transit engine's `encrypt` and `decrypt`, with associated data and versions of the key."""

    key = "archway"

    def __init__(self) -> None:
        super().__init__()
        self.token = TOKEN

    @property
    def address(self) -> str:
        return f"transit+http://{self.url.removeprefix('http://')}/transit/{self.key}"

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        verb = request.path.split("/")[3]
        self.calls.append(verb)
        if self.fault == "down":
            return 503, {"errors": ["Vault is sealed"]}
        if self.fault == "busy":
            return 429, {"errors": ["request path quota exceeded"]}
        if self.fault == "denied" or request.headers["X-Vault-Token"] != self.token:
            return 403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
        if not request.path.endswith(f"/v1/transit/{verb}/{self.key}"):
            return 400, {"errors": ["encryption key not found"]}
        asked = json.loads(body)
        context = asked.get("associated_data", "")
        if verb == "encrypt":
            blob = self.wrapped(base64.b64decode(asked["plaintext"]), context)
            return 200, {"data": {"ciphertext": f"vault:v1:{base64.b64encode(blob).decode()}", "key_version": 1}}
        prefix, _, text = asked["ciphertext"].rpartition(":")
        if prefix != "vault:v1":
            return 400, {"errors": ["invalid ciphertext: no prefix"]}
        found = self.unwrapped(base64.b64decode(text), context)
        if found is None:
            return 400, {"errors": ["cipher: message authentication failed"]}
        return 200, {"data": {"plaintext": base64.b64encode(found).decode()}}
