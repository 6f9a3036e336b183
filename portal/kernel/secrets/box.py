"""Authenticated encryption of a few bytes: AES-256-GCM, a fresh nonce each time.

Layout: one byte of version, 12 bytes of nonce, ciphertext and tag.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from portal.kernel.errors import Invalid

VERSION = b"\x01"
KEY_BYTES = 32
NONCE_BYTES = 12  # 96 bits: NIST SP 800-38D, 8.2
_TAG_BYTES = 16


def unreadable() -> Invalid:
    """The one answer to tampered, swapped and truncated bytes alike: which of them it was helps only an attacker."""
    return Invalid("This credential can not be opened; give its secret again.", code="credential_unreadable")


def encrypt(key: bytes, plaintext: bytes, associated: bytes) -> bytes:
    """Bytes in the layout of this module, under a fresh nonce."""
    nonce = os.urandom(NONCE_BYTES)
    return VERSION + nonce + AESGCM(key).encrypt(nonce, plaintext, associated)


def decrypt(key: bytes, sealed: bytes, associated: bytes) -> bytes:
    """The opposite of `encrypt`. Raises `Invalid` (credential_unreadable)."""
    if len(sealed) < len(VERSION) + NONCE_BYTES + _TAG_BYTES or not sealed.startswith(VERSION):
        raise unreadable()
    nonce, body = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, body, associated)
    except InvalidTag:
        raise unreadable() from None
