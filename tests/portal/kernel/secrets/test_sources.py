"""Each kind of master key: the services over their real wire protocols, keys in files as people write them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from portal.kernel.errors import ArchwayError, Invalid, Unavailable
from portal.kernel.secrets import keyring, sealing
from portal.kernel.secrets.sources import SOURCES, keys_at
from portal.kernel.secrets.sources.aliyun_signature import signed_headers
from portal.kernel.secrets.sources.contract import MasterKeySource
from portal.kernel.secrets.sources.local import keys_in_file, keys_in_text
from tests.portal.kernel.secrets.conftest import Configure, new_key
from tests.support.key_services import KEY_SECRET, TOKEN, KeyService, Transit

ROW = ("kernel_credential", "1", "2", "api.example.com")
VALUE = "sk-value-of-the-tests"


def sealed_by(source: MasterKeySource) -> sealing.Sealed:
    return sealing.seal(source, VALUE, ROW)


def test_a_key_service_seals_and_opens_and_sees_neither_value_nor_row(service: KeyService) -> None:
    source = keyring.keyring().current
    sealed = sealed_by(source)
    assert sealing.unseal(source.unwrap, sealed, ROW) == VALUE
    assert len(service.calls) == 2
    seen = "".join(service.bodies + service.addresses)
    assert VALUE not in seen
    assert "api.example.com" not in seen


def test_data_keys_never_travel_in_an_address(service: KeyService) -> None:
    source = keyring.keyring().current
    data_key, wrapped = source.new_key(b"row")
    assert source.unwrap(wrapped, b"row") == data_key
    forms = (base64.b64encode(data_key).decode(), base64.urlsafe_b64encode(data_key).decode())
    assert not any(form.rstrip("=") in address for form in forms for address in service.addresses)


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        ("down", Unavailable, "master_key_unavailable"),
        ("busy", Unavailable, "master_key_unavailable"),
        ("cut", Unavailable, "master_key_unavailable"),
        ("garbage", Unavailable, "master_key_unavailable"),
        ("denied", Invalid, "master_key_refused"),
    ],
)
def test_what_ails_a_key_service_has_its_code_and_says_whether_it_passes(
    service: KeyService, fault: str, kind: type[ArchwayError], code: str
) -> None:
    source = keyring.keyring().current
    sealed = sealed_by(source)
    service.fault = fault
    for use in (lambda: sealed_by(source), lambda: sealing.unseal(source.unwrap, sealed, ROW)):
        with pytest.raises(kind) as caught:
            use()
        assert caught.value.code == code
        assert not {KEY_SECRET, TOKEN, VALUE} & set(str(caught.value).split())


def test_a_key_wrapped_for_another_row_or_bitten_off_does_not_open(service: KeyService) -> None:
    source = keyring.keyring().current
    _, wrapped = source.new_key(b"row 1")
    for blob, context in ((wrapped, b"row 2"), (wrapped[:-8], b"row 1"), (b"\xff\x00", b"row 1")):
        with pytest.raises(Invalid) as caught:
            source.unwrap(blob, context)
        assert caught.value.code == "credential_unreadable"


def test_what_a_service_unwrapped_is_kept_for_a_minute_and_no_longer(service: KeyService) -> None:
    source = keyring.keyring().current
    key, wrapped = source.new_key(b"row")
    now = [0.0]
    kept = keyring.DataKeys(clock=lambda: now[0])
    assert kept.unwrap(source, wrapped, b"row") == (key, True)
    assert kept.unwrap(source, wrapped, b"row") == (key, False)
    with pytest.raises(Invalid):
        kept.unwrap(source, wrapped, b"another row")
    asked = len(service.calls)
    now[0] = keyring.KEPT_SECONDS + 1
    assert kept.unwrap(source, wrapped, b"row") == (key, True)
    assert len(service.calls) == asked + 1


@pytest.mark.usefixtures("service")
def test_a_wrong_account_is_refused_by_its_signature(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    configure(VAULT_TOKEN="hvs.another", ALIYUN_KEY_SECRET="another")
    with pytest.raises(Invalid) as caught:
        keyring.load().current.new_key(b"row")
    assert caught.value.code == "master_key_refused"


def test_the_token_of_a_transit_engine_is_read_at_each_call_because_agents_renew_it(
    configure: Configure, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    configure(VAULT_TOKEN_FILE=str(file))
    with Transit() as engine:
        source = keys_at(engine.address)[0]
        source.new_key(b"row")
        engine.token = "hvs.renewed"
        with pytest.raises(Invalid):
            source.new_key(b"row")
        file.write_text("hvs.renewed")
        source.new_key(b"row")


def test_the_signature_of_alibaba_cloud_is_that_of_its_documentation() -> None:
    headers = signed_headers(
        key_id="YourAccessKeyId",
        key_secret="YourAccessKeySecret",
        method="POST",
        host="ecs.cn-shanghai.aliyuncs.com",
        path="/",
        query={"ImageId": "win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd", "RegionId": "cn-shanghai"},
        body=b"",
        headers={
            "x-acs-action": "RunInstances",
            "x-acs-version": "2014-05-26",
            "x-acs-date": "2023-10-26T10:22:32Z",
            "x-acs-signature-nonce": "3156853299f313e23d1673dc12e1703d",
        },
    )
    assert headers["authorization"].endswith(
        "Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
    )


def test_a_key_file_holds_raw_bytes_base64_or_hexadecimal_digits(tmp_path: Path) -> None:
    raw = bytes(range(200, 232))
    path = tmp_path / "key"
    ids = set()
    for content in (
        raw,
        base64.b64encode(raw),
        base64.urlsafe_b64encode(raw).rstrip(b"="),
        raw.hex().encode(),
        b"# ours\n" + base64.b64encode(raw) + b"  # since May\n",
        b'{"secret_key": "x", "master_key": "' + base64.urlsafe_b64encode(raw) + b'"}',
    ):
        path.write_bytes(content)
        ids.add(keys_in_file(path)[0].key_id)
    assert len(ids) == 1


def test_the_first_key_of_a_file_seals_and_the_others_open(key_file: Path, configure: Configure) -> None:
    configure(MASTER_KEY_FILE=str(key_file))
    old = keyring.keyring().current
    sealed = sealed_by(old)
    key_file.write_text(f"{new_key()}\n{key_file.read_text()}\n")
    ring = keyring.keyring()
    assert ring.current.key_id != old.key_id
    assert sealing.unseal(ring.find(sealed.key_id).unwrap, sealed, ROW) == VALUE


@pytest.mark.parametrize("text", ["", "short", "x" * 44, base64.b64encode(b"k" * 16).decode(), "zz" * 32])
def test_what_is_no_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        keys_in_text(text)
    assert caught.value.code == "master_key_invalid"
    assert len(text) < 5 or text not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://x/y",
        "aws-kms://eu-central-1",
        "aliyun-kms:///key",
        "transit://vault.example/key",
        "transit+http://vault.example:8200/transit/key",
        "aws-kms://eu-central-1/key?endpoint=http%3A%2F%2Fkms.example",
        "env://ARCHWAY_NO_SUCH_KEY",
        "file:///no/such/file",
    ],
)
def test_an_address_that_can_not_be_a_key_says_so_before_anything_is_asked(address: str) -> None:
    with pytest.raises(Invalid) as caught:
        keys_at(address)
    assert caught.value.code == "master_key_invalid"


def test_a_key_from_the_environment_is_the_only_kind_that_production_refuses() -> None:
    assert [name for name, kind in SOURCES.items() if not kind.production] == ["env"]
