"""What holds a master key: it wraps and unwraps data keys, and says which key it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from portal.kernel.errors import Invalid, Unavailable

Unwrap = Callable[[bytes, bytes], bytes]
# A key service that does not answer must not hold a request for long.
TIMEOUT_SECONDS = 5.0


class MasterKeySource(Protocol):
    """One master key. `key_id` names the key itself: another key has another id, wherever it lies.

    `remote` sources are asked over the network; what they unwrapped is kept for a short while.
    """

    @property
    def key_id(self) -> str: ...

    @property
    def remote(self) -> bool: ...

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        """Encrypt 32 bytes, bound to `context`. Raises `Unavailable` (master_key_unavailable: passes) or
        `Invalid` (master_key_refused: a person must act)."""
        ...

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        """The data key. Raises as `wrap`, and `Invalid` (credential_unreadable) for what this key did not wrap."""
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
