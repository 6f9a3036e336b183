"""A master key in AWS KMS, through botocore: its chain of credentials (role, web identity, environment) is AWS's own.
It is imported at first use only, because it takes half a second.

`aws-kms://REGION/KEY`, KEY being a key id, an ARN or `alias/NAME`; `?endpoint=https://…` for a private endpoint.
Rights needed: kms:GenerateDataKey and kms:Decrypt.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote

from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import box
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

_NAME = "AWS KMS"
_UNREADABLE = {"InvalidCiphertextException", "IncorrectKeyException"}
_PASSING = {
    "ThrottlingException", "Throttling", "RequestLimitExceeded", "KMSInternalException", "DependencyTimeoutException",
    "KeyUnavailableException", "InternalFailure", "ServiceUnavailable", "RequestTimeout",
}  # fmt: skip


class AwsKey:
    """One key of AWS KMS."""

    remote = True

    def __init__(self, region: str, key: str, endpoint: str = "") -> None:
        self._region, self._key, self._endpoint = region, key, endpoint
        self.key_id = f"aws-kms:{region}/{key}"
        self._made: Any = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"AwsKey({self.key_id})"

    def new_key(self, context: bytes) -> tuple[bytes, bytes]:
        answer = self._ask("generate_data_key", KeyId=self._key, KeySpec="AES_256", EncryptionContext=_bound(context))
        return answer["Plaintext"], answer.get("CiphertextBlob", b"")

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        # An alias may point to a newer key by now; the wrapped key names its own.
        named = {} if "alias/" in self._key else {"KeyId": self._key}
        answer = self._ask("decrypt", CiphertextBlob=wrapped, EncryptionContext=_bound(context), **named)
        key: bytes = answer["Plaintext"]
        return key

    def _ask(self, verb: str, **arguments: Any) -> Any:
        exceptions = import_module("botocore.exceptions")
        try:
            answer = getattr(self._client(), verb)(**arguments)
        except exceptions.ClientError as error:
            raise _failure(error.response) from None
        except exceptions.BotoCoreError as error:
            # Credentials that are missing need a person; everything else of this family is the network.
            raise (refused(_NAME) if "Credential" in type(error).__name__ else unavailable(_NAME)) from None
        # What is no JSON, from a proxy say, arrives here as an answer without fields.
        if not answer.get("Plaintext"):
            raise unavailable(_NAME)
        return answer

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                session = import_module("botocore.session").get_session()
                self._made = session.create_client(
                    "kms",
                    region_name=self._region,
                    endpoint_url=self._endpoint or None,
                    config=import_module("botocore.config").Config(
                        connect_timeout=CONNECT_SECONDS,
                        read_timeout=ANSWER_SECONDS,
                        retries={"total_max_attempts": 2, "mode": "standard"},
                    ),
                )
            return self._made


def keys(address: SplitResult) -> Sequence[MasterKeySource]:
    """The key of an address. Raises `Invalid` (master_key_invalid)."""
    key = unquote(address.path.lstrip("/"))
    if not address.netloc or not key:
        raise misconfigured("Name the key as aws-kms://REGION/KEY.")
    endpoint = parse_qs(address.query).get("endpoint", [""])[0]
    return [AwsKey(address.netloc, key, safe_endpoint(endpoint) if endpoint else "")]


def _bound(context: bytes) -> dict[str, str]:
    return {"archway-row": context_label(context)}


def _failure(answer: Any) -> ArchwayError:
    code = answer.get("Error", {}).get("Code", "")
    if code in _UNREADABLE:
        return box.unreadable()
    if code in _PASSING or answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return unavailable(_NAME)
    return refused(_NAME)
