"""A secret as a value, and how it is kept out of everything that is written down.

Imports nothing of Django: logging is set up before it.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import threading
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus
from weakref import WeakSet

SHOWN = "•••"
# Shorter than this, a value is too likely a word of ordinary text.
_LEAST = 6
_live: WeakSet[Secret] = WeakSet()
_lock = threading.RLock()  # reentrant: a garbage collection inside may run code that makes another


class Secret:
    """A secret in use. Only `expose()` gives it; printing, formatting, pickling and JSON do not.

    While one lives, `redacted` takes its value out of every text, log lines among them.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value) >= _LEAST:
            with _lock:
                _live.add(self)

    def expose(self) -> str:
        """The secret itself, for the one call that needs it."""
        return self._value

    def matches(self, other: str) -> bool:
        """Whether it equals `other`, in constant time."""
        return hmac.compare_digest(self._value.encode(), other.encode())

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({SHOWN})" if self._value else "Secret()"

    def __str__(self) -> str:
        return SHOWN if self._value else ""

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A secret can not be pickled.")


# What looks like a secret of somebody, whoever made it: (pattern, what stays).
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*\d)[\w.~+/=:-]{8,}"), rf"\1 {SHOWN}"),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), rf"\1{SHOWN}@"),
    (re.compile(r"\b(sk-|kb_|hvs\.|gsk_|AIza|LTAI|AKIA)[\w-]{12,}"), rf"\1{SHOWN}"),
    (
        re.compile(
            r"(?i)\b((?:x[-_])?(?:api[-_]?key|access[-_]?key|secret[-_]?key|auth[-_]?token|access[-_]?token|"
            r"client[-_]?secret|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)(?!\s)[^\s\"',;&}\])•]{6,}"
        ),
        rf"\1{SHOWN}",
    ),
)


def redacted(text: str) -> str:
    """`text` without the values of living secrets, as they are, quoted for an address, in JSON or in base64."""
    with _lock:
        living = list(_live)
    for secret in living:
        for form in _forms(secret.expose()):
            if form in text:
                text = text.replace(form, SHOWN)
    for pattern, kept in _PATTERNS:
        text = pattern.sub(kept, text)
    return text


def _forms(value: str) -> set[str]:
    forms = {value, quote(value), quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
    forms.add(base64.b64encode(value.encode("utf-8", "replace")).decode().rstrip("="))
    return forms
