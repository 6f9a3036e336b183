"""Which master keys this process has: the one that seals, and others that still open."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings

from portal.kernel.errors import Invalid
from portal.kernel.secrets.sources import keys_at
from portal.kernel.secrets.sources.contract import MasterKeySource, misconfigured

# How long a data key that a key service unwrapped stays in memory, and how many at most.
KEPT_SECONDS = 60.0
_KEPT_KEYS = 256


@dataclass(frozen=True)
class Keyring:
    """`current` seals; `current` and `others` open."""

    current: MasterKeySource
    others: tuple[MasterKeySource, ...] = ()

    def find(self, key_id: str) -> MasterKeySource:
        """The key with this id. Raises `Invalid` (master_key_unknown)."""
        for source in (self.current, *self.others):
            if source.key_id == key_id:
                return source
        raise Invalid(
            "The master key %(key)s, under which this was sealed, is not configured here.",
            code="master_key_unknown",
            key=key_id or "?",
        )


def addresses() -> tuple[str, ...]:
    """The configured keys, the one that seals first. Raises `Invalid` (master_key_invalid) when there is none.

    A key service goes before a file, a file before the environment, and that before the generated key.
    """
    configured = settings.ARCHWAY
    if kms := configured["MASTER_KEY_KMS"]:
        first = kms
    elif file := configured["MASTER_KEY_FILE"]:
        first = Path(file).absolute().as_uri()
    elif variable := configured["MASTER_KEY_VARIABLE"]:
        first = f"env://{variable}"
    elif generated := configured["GENERATED_SECRETS"]:
        first = Path(generated).absolute().as_uri()
    else:
        raise misconfigured("There is no master key; set ARCHWAY_MASTER_KEY_FILE or ARCHWAY_MASTER_KEY_KMS.")
    return (first, *configured["MASTER_KEY_OLD"])


def uses_generated_key() -> bool:
    """Whether the key that seals is the one generated into the data folder."""
    generated = settings.ARCHWAY["GENERATED_SECRETS"]
    return bool(generated) and addresses()[0] == Path(generated).absolute().as_uri()


def load() -> Keyring:
    """The keys as they are configured now."""
    found: dict[str, MasterKeySource] = {}
    for address in addresses():
        for source in keys_at(address):
            found.setdefault(source.key_id, source)
    current, *others = found.values()
    return Keyring(current, tuple(others))


_guard = threading.Lock()
_loaded: tuple[object, Keyring] | None = None


def keyring() -> Keyring:
    """The keys of this process; read again when the settings or a key file have changed."""
    global _loaded
    state = tuple((address, _state_of(address)) for address in addresses())
    with _guard:
        if _loaded is None or _loaded[0] != state:
            _loaded = (state, load())
        return _loaded[1]


def _state_of(address: str) -> object:
    """What changes when the key at an address is replaced where it lies."""
    parts = urlsplit(address)
    if parts.scheme == "env":
        return hashlib.sha256(os.environ.get(parts.netloc, "").encode()).digest()
    if parts.scheme != "file":
        return None
    try:
        found = Path(unquote(parts.path)).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass
class DataKeys:
    """Data keys that a key service unwrapped, for `KEPT_SECONDS` each: a burst of calls asks it once."""

    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[bytes, tuple[float, bytes]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def unwrap(self, source: MasterKeySource, wrapped: bytes, context: bytes) -> tuple[bytes, bool]:
        """(the data key, whether the key service was asked). Raises what the source raises."""
        if not source.remote:
            return source.unwrap(wrapped, context), False
        name = hashlib.sha256(len(context).to_bytes(4, "big") + context + source.key_id.encode() + wrapped).digest()
        now = self.clock()
        with self._lock:
            while self._kept and next(iter(self._kept.values()))[0] <= now:
                self._kept.popitem(last=False)
            if name in self._kept:
                return self._kept[name][1], False
        key = source.unwrap(wrapped, context)
        with self._lock:
            self._kept[name] = (now + KEPT_SECONDS, key)
            self._kept.move_to_end(name)
            while len(self._kept) > _KEPT_KEYS:
                self._kept.popitem(last=False)
        return key, True

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()


data_keys = DataKeys()


def _forget() -> None:
    """Locks that somebody held, connections and keys in memory are not carried over a fork."""
    global _guard, _loaded, data_keys
    _guard, _loaded = threading.Lock(), None
    data_keys = DataKeys()


os.register_at_fork(after_in_child=_forget)
