"""What a seal is: a value encrypted under a data key of its own, which a master key wraps.

The associated data of both is the row's identity, so a ciphertext, or a wrapped key, that was moved to
another row, workspace or host does not open. Pure functions over bytes; whoever calls brings the master keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from portal.kernel.secrets import box
from portal.kernel.secrets.sources.contract import MasterKeySource, Unwrap


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed value. All of it may be known to strangers."""

    ciphertext: bytes
    wrapped_key: bytes
    key_id: str


def context_of(label: str, identity: Sequence[str]) -> bytes:
    """`identity` as associated data: each part with its length before it, so that no two identities look alike."""
    parts = [label.encode(), *(part.encode() for part in identity)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def seal(source: MasterKeySource, plaintext: str, identity: Sequence[str]) -> Sealed:
    """Seal `plaintext` for the row `identity` under a fresh data key. Raises what the source raises."""
    data_key, wrapped = source.new_key(context_of("archway-key-1", identity))
    body = box.encrypt(data_key, plaintext.encode(), context_of("archway-value-1", identity))
    return Sealed(body, wrapped, source.key_id)


def unseal(unwrap: Unwrap, sealed: Sealed, identity: Sequence[str]) -> str:
    """The value, if it is this row's. Raises `Invalid` (credential_unreadable) and what the source raises."""
    data_key = unwrap(sealed.wrapped_key, context_of("archway-key-1", identity))
    if len(data_key) != box.KEY_BYTES:
        raise box.unreadable()
    plaintext = box.decrypt(data_key, sealed.ciphertext, context_of("archway-value-1", identity))
    try:
        return plaintext.decode()
    except UnicodeDecodeError:
        raise box.unreadable() from None
