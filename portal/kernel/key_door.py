"""Who stands behind a key that a request shows, and whether it may ask once more."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from portal.kernel import keys, limits
from portal.kernel.errors import Unauthenticated
from portal.kernel.limits import Room
from portal.kernel.models import ApiKey
from portal.kernel.principal import Principal, for_key


@dataclass(frozen=True, slots=True)
class Admitted:
    """A live key, whom it speaks for, and how many requests it has left this minute."""

    key: ApiKey
    principal: Principal
    room: Room


def admit(secret: str, address: str) -> Admitted:
    """The key with this secret, counted. Raises `Unauthenticated` (key_invalid) and `TooMany`.

    A wrong key counts for the address that it came from: guessing is slow.
    """
    try:
        key = keys.authenticate(secret)
    except Unauthenticated:
        limits.hit_address("address", address, settings.ARCHWAY["RATE_PER_ADDRESS"])
        raise
    principal = for_key(key)
    return Admitted(key, principal, limits.hit("key", str(key.pk), key.per_minute))
