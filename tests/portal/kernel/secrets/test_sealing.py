"""A seal opens only as it was made, in the row it was made for: never a wrong value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.kernel.errors import Invalid
from portal.kernel.models import Credential
from portal.kernel.secrets import box, reveal, rows, sealing, verbs
from portal.kernel.secrets.sources.local import LocalKey
from tests.support.people import World

HOST = "api.example.com"
KEY = LocalKey(b"k" * 32)
ROW = ("kernel_credential", "1", "2", HOST)


@pytest.mark.writes_secrets("any text at all, also what stands in the code")
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300))
def test_what_was_sealed_comes_back(value: str) -> None:
    assert sealing.unseal(KEY.unwrap, sealing.seal(KEY, value, ROW), ROW) == value


@given(st.data())
def test_one_changed_bit_anywhere_and_nothing_comes_back(data: st.DataObject) -> None:
    sealed = sealing.seal(KEY, "sk-the-value", ROW)
    part = data.draw(st.sampled_from(["ciphertext", "wrapped_key"]))
    blob = bytearray(getattr(sealed, part))
    bit = data.draw(st.integers(0, len(blob) * 8 - 1))
    blob[bit // 8] ^= 1 << (bit % 8)
    changed = sealing.Sealed(**{**_fields(sealed), part: bytes(blob)})
    with pytest.raises(Invalid) as caught:
        sealing.unseal(KEY.unwrap, changed, ROW)
    assert caught.value.code == "credential_unreadable"


@given(st.data())
def test_cut_off_anywhere_and_nothing_comes_back(data: st.DataObject) -> None:
    sealed = sealing.seal(KEY, "sk-the-value", ROW)
    part = data.draw(st.sampled_from(["ciphertext", "wrapped_key"]))
    blob: bytes = getattr(sealed, part)
    changed = sealing.Sealed(**{**_fields(sealed), part: blob[: data.draw(st.integers(0, len(blob) - 1))]})
    with pytest.raises(Invalid) as caught:
        sealing.unseal(KEY.unwrap, changed, ROW)
    assert caught.value.code == "credential_unreadable"


def _fields(sealed: sealing.Sealed) -> dict[str, Any]:
    return {"ciphertext": sealed.ciphertext, "wrapped_key": sealed.wrapped_key, "key_id": sealed.key_id}


def test_identities_with_their_parts_shifted_are_not_the_same() -> None:
    assert sealing.context_of("l", ("ab", "c")) != sealing.context_of("l", ("a", "bc"))
    assert sealing.context_of("l", ("a", "")) != sealing.context_of("l", ("a",))


def test_nonces_data_keys_and_wrappings_are_never_used_twice() -> None:
    seals = [sealing.seal(KEY, "the same", ROW) for _ in range(500)]
    nonces = {sealed.ciphertext[1 : 1 + box.NONCE_BYTES] for sealed in seals}
    keys = {KEY.unwrap(sealed.wrapped_key, sealing.context_of("archway-key-1", ROW)) for sealed in seals}
    assert len(nonces) == len(keys) == len({sealed.wrapped_key for sealed in seals}) == 500


@pytest.fixture
def pair(db: None) -> tuple[Credential, Credential]:
    """Two credentials of the installation for the same host."""
    made = [
        verbs.create(None, name=name, value=f"secret-of-{name}-01234", host=HOST, workspace_id=None)
        for name in ("one", "two")
    ]
    return made[0], made[1]


def outcome(row: Credential, host: str = HOST) -> str:
    with pytest.raises(Invalid) as caught:
        reveal(row.reference, host=host, purpose="test")
    return caught.value.code


@pytest.mark.parametrize("fields", [("ciphertext",), ("wrapped_key",), ("ciphertext", "wrapped_key", "key_id")])
def test_a_seal_moved_to_another_row_does_not_open_there(
    pair: tuple[Credential, Credential], fields: tuple[str, ...]
) -> None:
    one, two = pair
    Credential.objects.filter(pk=two.pk).update(**{name: getattr(one, name) for name in fields})
    assert outcome(two) == "credential_unreadable"
    assert rows.take(one)[0] == "secret-of-one-01234"


def test_a_row_moved_to_another_host_in_the_database_does_not_open(pair: tuple[Credential, Credential]) -> None:
    Credential.objects.filter(pk=pair[0].pk).update(host="evil.example")
    assert outcome(pair[0], "evil.example") == "credential_unreadable"


def test_a_row_moved_to_another_workspace_in_the_database_does_not_open(
    pair: tuple[Credential, Credential], world: World
) -> None:
    workspace_id = world.workspace.pk
    Credential.objects.filter(pk=pair[0].pk).update(workspace_id=workspace_id)
    with pytest.raises(Invalid) as caught:
        reveal(pair[0].reference, host=HOST, purpose="test", workspace_id=workspace_id)
    assert caught.value.code == "credential_unreadable"


@pytest.mark.parametrize("ciphertext", [b"", b"\x01", b"\x02" + bytes(60), bytes(range(64))])
def test_garbage_in_the_column_is_unreadable(pair: tuple[Credential, Credential], ciphertext: bytes) -> None:
    Credential.objects.filter(pk=pair[0].pk).update(ciphertext=ciphertext)
    assert outcome(pair[0]) == "credential_unreadable"
