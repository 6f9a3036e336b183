"""Master keys in our own hands: from a file, or from the environment (development only)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from pathlib import Path
from urllib.parse import SplitResult, unquote

from portal.kernel.secrets import box
from portal.kernel.secrets.sources.contract import misconfigured


class LocalKey:
    """32 bytes in this process. The id is a one-way print of the key, so that the right one is found again."""

    remote = False

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.key_id = f"local:{hmac.new(key, b'archway master key id', hashlib.sha256).hexdigest()[:24]}"

    def __repr__(self) -> str:
        return f"LocalKey({self.key_id})"

    def new_key(self, context: bytes) -> tuple[bytes, bytes]:
        key = os.urandom(box.KEY_BYTES)
        return key, box.encrypt(self._key, key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        return box.decrypt(self._key, wrapped, context)


def keys_at_path(address: SplitResult) -> list[LocalKey]:
    """Of `file:///path`."""
    return keys_in_file(Path(unquote(address.path)))


def keys_in_environment(address: SplitResult) -> list[LocalKey]:
    """Of `env://NAME`."""
    return keys_in_text(os.environ.get(address.netloc, ""))


def keys_in_file(path: Path) -> list[LocalKey]:
    """The keys of a file, the one that seals first; the others still open.

    A file holds 32 raw bytes, or lines of base64 or hexadecimal digits (`#` starts a comment), or is the
    `secrets.json` of a data folder. Raises `Invalid` (master_key_invalid).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise misconfigured("The file of the master key can not be read.") from error
    if len(data) == box.KEY_BYTES and not data.strip().startswith(b"{"):
        return [LocalKey(data)]
    try:
        text = data.decode("ascii").strip()
        if text.startswith("{"):
            text = str(json.loads(text)["master_key"])
    except (UnicodeDecodeError, ValueError, KeyError):
        raise misconfigured("The file of the master key holds no key of 32 bytes.") from None
    return keys_in_text(text)


def keys_in_text(text: str) -> list[LocalKey]:
    """As `keys_in_file`, from text; commas part keys as line ends do."""
    lines = [line.partition("#")[0].strip() for line in text.replace(",", "\n").splitlines()]
    found = [LocalKey(_decoded(line)) for line in lines if line]
    if not found:
        raise misconfigured("The master key is empty.")
    return found


def _decoded(line: str) -> bytes:
    try:
        if len(line) == 2 * box.KEY_BYTES:
            return bytes.fromhex(line)
        digits = line.rstrip("=")
        key = base64.b64decode(digits.translate(str.maketrans("-_", "+/")) + "=" * (-len(digits) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise misconfigured("A master key is 32 bytes in base64 or hexadecimal digits.") from None
    if len(key) != box.KEY_BYTES:
        raise misconfigured("A master key is 32 bytes in base64 or hexadecimal digits.")
    return key
