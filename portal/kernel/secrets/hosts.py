"""The host that a secret is bound to, out of an address as people write it."""

from __future__ import annotations

from urllib.parse import urlsplit

from portal.kernel.errors import Invalid

_PORTS = {"http": 80, "https": 443}


def host_of(address: str) -> str:
    """`host` or `host:port` of a URL or of a bare host, lower case; https needs no port, http keeps its 80.

    So a secret that was given for https://host does not go to http://host. Raises `Invalid` (host_invalid).
    """
    wrong = Invalid("Give the host that this secret is for, such as api.example.com.", code="host_invalid")
    text = address.strip()
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        port = parts.port or _PORTS[parts.scheme]
        name = (parts.hostname or "").rstrip(".")
        host = name if ":" in name else name.encode("idna").decode()
    except (ValueError, KeyError, UnicodeError):
        raise wrong from None
    if not host or parts.username is not None or any(ch.isspace() for ch in host):
        raise wrong
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _PORTS["https"] else f"{shown}:{port}"
