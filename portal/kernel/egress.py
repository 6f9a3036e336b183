"""May this URL be fetched: the only judge of addresses that people give.

A name is resolved here, every address must be public (or allowed by the operator in
`ARCHWAY_EGRESS_ALLOW`), and the connection goes to the very address that was judged, so that a second
look-up can not answer differently. Redirects come back through the same transport and are judged again.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from portal.kernel.errors import Invalid, Unavailable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORTS = {"http": 80, "https": 443}
# Addresses that carry an IPv4 address inside are judged by it (RFC 6052, RFC 3056, RFC 4380).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# All that was ever given out for the public internet (RFC 4291, 2.4). Python takes more for global: ::127.0.0.1,
# NAT64 prefixes of a site, site-local addresses.
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
# Documentation and segment routing (RFC 9637, RFC 9602), IETF protocols (RFC 6890): newer than some Pythons know.
_NEVER = tuple(ipaddress.ip_network(net) for net in ("3fff::/20", "5f00::/16", "192.0.0.0/24"))


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator opened besides public addresses: networks, and host names with or without a port."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def read(cls, entries: Sequence[str]) -> Allowed:
        """From entries such as `10.1.0.0/16`, `models.lan` or `models.lan:8000`."""
        networks: list[Network] = []
        hosts: set[str] = set()
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.lower())
        return cls(tuple(networks), frozenset(hosts))

    def covers(self, address: Address, host: str, port: int) -> bool:
        named = {host.lower(), f"{host.lower()}:{port}"}
        return not named.isdisjoint(self.hosts) or any(address in network for network in self.networks)


def configured() -> Allowed:
    """What the operator allows."""
    return Allowed.read(settings.ARCHWAY["EGRESS_ALLOW"])


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, whatever form it is written in."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _PUBLIC_IPV6:
            return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _NEVER)


def judge(url: str, allowed: Allowed | None = None) -> tuple[str, int, str]:
    """(host, port, address to connect to) of a URL that may be fetched.

    Raises `Invalid` (url_invalid, url_forbidden; the sentence names the setting that allows it) or
    `Unavailable` (host_unknown).
    """
    allowed = allowed or configured()
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        raise Invalid("Give an address that starts with http:// or https:// and holds no password.", code="url_invalid")
    try:
        port = parts.port or _PORTS[parts.scheme]
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except ValueError as error:
        raise Invalid("The port of this address is not a number.", code="url_invalid") from error
    except (OSError, UnicodeError) as error:
        raise Unavailable("The host %(host)s was not found.", code="host_unknown", host=parts.hostname) from error
    addresses = [ipaddress.ip_address(row[4][0]) for row in found]
    for address in addresses:
        if not (is_public(address) or allowed.covers(address, parts.hostname, port)):
            raise Invalid(
                "%(host)s is not on the public internet; the operator can allow it in ARCHWAY_EGRESS_ALLOW.",
                code="url_forbidden",
                host=parts.hostname,
            )
    return parts.hostname, port, str(addresses[0])


class Transport(httpx.HTTPTransport):
    """An httpx transport that judges each request (redirects too) and connects to the judged address."""

    def __init__(self, allowed: Allowed | None = None) -> None:
        super().__init__(retries=0, trust_env=False)
        self._allowed = allowed

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, _, address = judge(str(request.url), self._allowed)
        # A request of its own: redirects are resolved against the one that was asked for, which keeps its name.
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return super().handle_request(pinned)


def client(*, timeout: float, allowed: Allowed | None = None) -> httpx.Client:
    """An httpx client for addresses that people gave: judged, pinned, at most five redirects, no proxy variables."""
    return httpx.Client(
        transport=Transport(allowed), timeout=timeout, follow_redirects=True, max_redirects=5, trust_env=False
    )
