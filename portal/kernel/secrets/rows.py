"""Sealed values in rows: written under a master key that is not retired, opened under any that is configured."""

from __future__ import annotations

from django.db import connection, transaction
from django.utils import timezone

from portal.kernel.errors import Conflict
from portal.kernel.models import MasterKey, SealedRow
from portal.kernel.secrets import box, keyring, sealing

SEAL_FIELDS = ("ciphertext", "wrapped_key", "key_id", "sealed_at")


def put(row: SealedRow, plaintext: str) -> None:
    """Seal `plaintext` into the fields of `row`; the caller saves it in the same transaction.

    Raises `Conflict` (master_key_retired) when this process still has a key that rotation retired.
    """
    source = keyring.keyring().current
    hold_key(source.key_id)
    sealed = sealing.seal(source, plaintext, row.sealed_identity())
    row.ciphertext, row.wrapped_key, row.key_id = sealed.ciphertext, sealed.wrapped_key, sealed.key_id
    row.sealed_at = timezone.now()


def take(row: SealedRow) -> tuple[str, bool]:
    """(the value, whether a key service was asked).

    Raises `Invalid` (credential_unreadable, master_key_unknown, master_key_refused) or `Unavailable`.
    """
    if not row.ciphertext:
        raise box.unreadable()
    source = keyring.keyring().find(row.key_id)
    asked = False

    def unwrap(wrapped: bytes, context: bytes) -> bytes:
        nonlocal asked
        key, asked = keyring.data_keys.unwrap(source, wrapped, context)
        return key

    sealed = sealing.Sealed(bytes(row.ciphertext), bytes(row.wrapped_key), row.key_id)
    return sealing.unseal(unwrap, sealed, row.sealed_identity()), asked


def hold_key(key_id: str) -> None:
    """Keep a master key from being retired until the caller's transaction ends; note it at its first use."""
    if not transaction.get_connection().in_atomic_block:
        raise AssertionError("sealed values are written in a transaction")
    with connection.cursor() as cursor:
        # Shared: writers do not wait for each other, only for the one who retires.
        query = f"SELECT state FROM {MasterKey._meta.db_table} WHERE key_id = %s FOR SHARE"  # noqa: S608
        cursor.execute(query, [key_id])
        found = cursor.fetchone()
        if found is None:
            MasterKey.objects.bulk_create([MasterKey(key_id=key_id)], ignore_conflicts=True)
            cursor.execute(query, [key_id])
            found = cursor.fetchone()
    if found[0] == MasterKey.State.RETIRED:
        raise Conflict(
            "The master key of this process was retired; restart it with the new one.", code="master_key_retired"
        )
