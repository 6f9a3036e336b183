"""Where master keys come from: one row of `SOURCES` for each kind.

An address names a key: `file:///run/secrets/archway`, `env://NAME`, `aws-kms://REGION/KEY`,
`aliyun-kms://REGION/KEY`, `transit://HOST/MOUNT/KEY`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from portal.kernel.secrets.sources import aliyun, aws, local, transit
from portal.kernel.secrets.sources.contract import MasterKeySource, misconfigured


@dataclass(frozen=True, slots=True)
class Kind:
    """`keys`: those at an address, the one that seals first. `production`: whether new values may be sealed there."""

    keys: Callable[[SplitResult], Sequence[MasterKeySource]]
    production: bool


SOURCES: dict[str, Kind] = {
    "env": Kind(local.keys_in_environment, production=False),
    "file": Kind(local.keys_at_path, production=True),
    "aws-kms": Kind(aws.keys, production=True),
    "aliyun-kms": Kind(aliyun.keys, production=True),
    "transit": Kind(transit.keys, production=True),
    "transit+http": Kind(transit.keys, production=True),
}


def kind_of(address: str) -> Kind:
    """The row of an address. Raises `Invalid` (master_key_invalid)."""
    scheme = urlsplit(address).scheme
    if scheme not in SOURCES:
        known = ", ".join(f"{name}://" for name in SOURCES)
        raise misconfigured(f"The address of a master key starts with one of: {known}")
    return SOURCES[scheme]


def keys_at(address: str) -> Sequence[MasterKeySource]:
    """The master keys at an address. Raises `Invalid` (master_key_invalid); asks no service yet."""
    return kind_of(address).keys(urlsplit(address))
