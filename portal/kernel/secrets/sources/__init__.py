"""Where master keys come from: one row of `SOURCES` for each kind.

An address names a key: `file:///run/secrets/archway`, `env://NAME`, `aws-kms://REGION/KEY`,
`aliyun-kms://REGION/KEY`, `transit://HOST/MOUNT/KEY`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from portal.kernel.secrets.sources import local
from portal.kernel.secrets.sources.contract import MasterKeySource, misconfigured


def _file(address: SplitResult) -> Sequence[MasterKeySource]:
    return local.keys_in_file(Path(unquote(address.path)))


def _environment(address: SplitResult) -> Sequence[MasterKeySource]:
    return local.keys_in_text(os.environ.get(address.netloc, ""))


# scheme -> the keys at an address, the one that seals first
SOURCES: dict[str, Callable[[SplitResult], Sequence[MasterKeySource]]] = {
    "file": _file,
    "env": _environment,
}


def keys_at(address: str) -> Sequence[MasterKeySource]:
    """The master keys at an address. Raises `Invalid` (master_key_invalid); asks no service yet."""
    parts = urlsplit(address)
    if parts.scheme not in SOURCES:
        raise misconfigured("The address of a master key starts with one of: " + ", ".join(f"{s}://" for s in SOURCES))
    return SOURCES[parts.scheme](parts)
