"""A secret does not write itself down, and what is written down holds none."""

from __future__ import annotations

import copy
import gc
import io
import json
import logging
import pickle
from base64 import b64encode
from urllib.parse import quote

import pytest

from portal.kernel.logging import JsonFormatter, SecretFilter
from portal.kernel.secret_value import Secret, redacted

VALUE = "p@ss/w0rd-of-a-test"


def test_only_exposing_shows_a_secret() -> None:
    secret = Secret(VALUE)
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret:>40}", "%s %r" % (secret, [secret])):  # noqa: UP031
        assert VALUE not in shown
    assert secret.expose() == VALUE
    assert secret.matches(VALUE)
    assert not secret.matches("another")
    assert copy.deepcopy(secret) is secret
    assert not Secret("")
    for write in (pickle.dumps, json.dumps):
        with pytest.raises(TypeError):
            write(secret)


@pytest.mark.parametrize(
    "form", [VALUE, quote(VALUE, safe=""), json.dumps(VALUE)[1:-1], b64encode(VALUE.encode()).decode()]
)
def test_a_living_secret_is_taken_out_of_any_text_in_whatever_form(form: str) -> None:
    secret = Secret(VALUE)
    assert form not in redacted(f"before {form} after")
    assert redacted("before and after") == "before and after"
    del secret
    gc.collect()
    # Nothing remembers a secret that nobody uses any more.
    assert VALUE in redacted(f"before {VALUE} after")


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer abcdefghijk12345",
        "postgresql://archway:hunter2hunter2@db/archway",
        "sk-proj-abcdefghijkl1234",
        "{'api_key': 'abcdef123456'}",
        '{"client_secret": "abcdef123456"}',
        "password=abcdef123456&x=1",
        "X-API-Key: kb_abcdefghijklmnop",
    ],
)
def test_what_looks_like_a_secret_is_taken_out_too(line: str) -> None:
    clean = redacted(line)
    assert "•••" in clean
    assert not {"abcdefghijk12345", "hunter2hunter2", "abcdef123456", "abcdefghijklmnop"} & set(
        clean.replace('"', " ").replace("'", " ").replace("&", " ").replace(":", " ").replace("@", " ").split()
    )
    assert redacted(clean) == clean


@pytest.mark.parametrize("line", ["tokens: 1234567 of 9000000", "GET /api/v1/keys 200", "secret: no", "basic training"])
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert redacted(line) == line


@pytest.mark.parametrize("formatter", [logging.Formatter("%(message)s"), JsonFormatter()])
def test_log_lines_hold_no_secrets_in_message_arguments_or_traceback(formatter: logging.Formatter) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(SecretFilter())
    handler.setFormatter(formatter)
    logger = logging.getLogger("tests.secret_value")
    logger.addHandler(handler)
    logger.propagate = False
    secret = Secret(VALUE)
    try:
        logger.warning("calling with %s and %r", secret, {"x": secret.expose()})
        try:
            raise ValueError(f"the provider says {secret.expose()} is wrong")
        except ValueError:
            logger.exception("failed for %s", secret.expose())
        logger.warning("a message that %d fits badly", 1)
    finally:
        logger.removeHandler(handler)
    assert VALUE not in out.getvalue()
    assert "ValueError" in out.getvalue()
    assert "a message that 1 fits badly" in out.getvalue()
