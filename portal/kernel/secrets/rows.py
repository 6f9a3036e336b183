"""Sealed values in rows: written under a master key that is not retired, opened under any that is configured."""

from __future__ import annotations

from django.apps import apps
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


def reseal(row: SealedRow) -> bool:
    """Seal what `row` holds anew, under a fresh data key and the current master key, and save it.

    The new seal is opened again before the old one is given up. False when somebody else changed the row
    meanwhile. No lock is held while a key service is asked for the old value or a new key. Raises as `take`.
    """
    value, _ = take(row)
    source = keyring.keyring().current
    sealed = sealing.seal(source, value, row.sealed_identity())
    before = bytes(row.ciphertext)
    rows = type(row)._default_manager.filter(pk=row.pk)
    with transaction.atomic():
        hold_key(source.key_id)
        moved = rows.filter(ciphertext=before).update(
            ciphertext=sealed.ciphertext, wrapped_key=sealed.wrapped_key, key_id=sealed.key_id, sealed_at=timezone.now()
        )
        if not moved:
            return False
        row.refresh_from_db()
        # Not through the kept data keys: the master key itself must be able to open it.
        stored = sealing.Sealed(bytes(row.ciphertext), bytes(row.wrapped_key), row.key_id)
        if sealing.unseal(source.unwrap, stored, row.sealed_identity()) != value:
            raise box.unreadable()
    return True


def models() -> list[type[SealedRow]]:
    """Every kind of row with a sealed value."""
    return [model for model in apps.get_models() if issubclass(model, SealedRow)]


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
