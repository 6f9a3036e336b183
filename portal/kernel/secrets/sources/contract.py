"""What holds a master key: it makes data keys with their wrapping, unwraps them, and says which key it is."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

from portal.kernel.errors import Invalid, Unavailable

Unwrap = Callable[[bytes, bytes], bytes]
# A key service that does not answer must not hold a request for long.
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 5.0


class MasterKeySource(Protocol):
    """One master key. `key_id` names the key itself: another key has another id, wherever it lies.

    `remote` sources are asked over the network; what they unwrapped is kept for a short while.
    """

    @property
    def key_id(self) -> str: ...

    @property
    def remote(self) -> bool: ...

    def new_key(self, context: bytes) -> tuple[bytes, bytes]:
        """(a fresh data key of 32 bytes, the same wrapped and bound to `context`).

        Raises `Unavailable` (master_key_unavailable: passes) or `Invalid` (master_key_refused: a person must act).
        """
        ...

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """The data key. Raises as `new_key`, and `Invalid` (credential_unreadable) for what it did not wrap so."""
        ...


def unavailable(service: str) -> Unavailable:
    return Unavailable(
        "%(service)s, which holds the master key, does not answer.", code="master_key_unavailable", service=service
    )


def refused(service: str) -> Invalid:
    return Invalid("%(service)s refuses the use of the master key.", code="master_key_refused", service=service)


def misconfigured(reason: str) -> Invalid:
    """`reason` is a sentence for the operator, without the key."""
    return Invalid(reason, code="master_key_invalid")


def context_label(context: bytes) -> str:
    """What a key service binds a data key to, and writes into its own log: a print of the row's identity."""
    return hashlib.sha256(context).hexdigest()


def safe_endpoint(url: str) -> str:
    """`url`, if data keys may travel to it: https, or loopback. Raises `Invalid` (master_key_invalid)."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return url.rstrip("/")
    raise misconfigured("A key service is reached by https://, or by http:// on this very machine.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
