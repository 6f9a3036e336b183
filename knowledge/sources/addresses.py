"""Which addresses are the same page, and which of them a source reaches."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from functools import lru_cache
from posixpath import normpath
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from knowledge.ingestion.sniff import extension_of
from knowledge.models import Source
from portal.kernel.errors import Invalid

LONGEST = 2000
_PORTS = {"http": 80, "https": 443}
# Parameters that say where a visitor came from, not what is shown.
_TRACKING = re.compile(
    r"utm_\w+|gclid|fbclid|msclkid|mc_cid|mc_eid|spm|ref_src|_hs\w+|sessionid|phpsessid|jsessionid", re.I
)
_SESSION = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
# What is surely neither a page nor a document that can be read.
_NEVER = frozenset(
    {
        "png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "bmp", "css", "js", "mjs", "map", "json", "xml", "rss",
        "atom", "woff", "woff2", "ttf", "eot", "mp3", "mp4", "webm", "avi", "mov", "wav", "ogg", "zip", "gz", "tgz",
        "tar", "bz2", "xz", "7z", "rar", "exe", "msi", "dmg", "iso", "deb", "rpm", "apk", "jar",
    }
)  # fmt: skip
_UNRESERVED = "!$&'()*+,;=:@~/-._"


def canonical(address: str) -> str:
    """One spelling for all spellings of an address: no fragment, no default port, no tracking, path normalised.

    Raises `Invalid` (url_invalid) for what is no http(s) address.
    """
    try:
        parts = urlsplit(address.strip())
        port = parts.port
        host = _host(parts)
    except (ValueError, UnicodeError) as error:
        raise _invalid() from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not host or parts.username is not None:
        raise _invalid()
    netloc = host if port in (None, _PORTS[scheme]) else f"{host}:{port}"
    path = _path(_SESSION.sub("", parts.path))
    pairs = [
        (key, value) for key, value in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.fullmatch(key)
    ]
    result = urlunsplit((scheme, netloc, path, urlencode(sorted(pairs)), ""))
    if len(result) > LONGEST:
        raise _invalid()
    return result


def _invalid() -> Invalid:
    return Invalid("Give an address that starts with http:// or https:// and holds no password.", code="url_invalid")


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        return f"[{host}]"
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _path(raw: str) -> str:
    path = quote(unquote(raw, errors="surrogateescape"), safe=_UNRESERVED, errors="surrogateescape")
    if not path or path == "/":
        return "/"
    normal = "/" + normpath(path).lstrip("/")
    return normal + ("/" if path.endswith("/") and normal != "/" else "")


def key_of(address: str) -> str:
    """The short form under which a source knows an address once."""
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()


def origin(address: str) -> str:
    """Scheme, host and port."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def same_site(one: str, other: str) -> bool:
    """Same host and port; that a site moved from http to https makes no other site of it."""
    first, second = urlsplit(one), urlsplit(other)
    if first.hostname != second.hostname:
        return False
    return (first.port or _PORTS.get(first.scheme)) == (second.port or _PORTS.get(second.scheme)) or (
        first.port is None and second.port is None
    )


def clean_patterns(patterns: list[str]) -> list[str]:
    """Trimmed, without empties and repetitions; at most 50. Raises `Invalid` (patterns_invalid)."""
    kept = list(dict.fromkeys(pattern.strip() for pattern in patterns if pattern.strip()))
    if len(kept) > 50 or any(len(pattern) > 300 for pattern in kept):
        raise Invalid("At most 50 address patterns of at most 300 characters.", code="patterns_invalid")
    return kept


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Without a star at all, people mean "everything below".
    whole = pattern if "*" in pattern or "?" in pattern else f"{pattern}*"
    return re.compile(fnmatch.translate(whole))


def _matches(address: str, patterns: list[str]) -> bool:
    """Against the path (and query) when a pattern starts with a slash, else against the whole address."""
    parts = urlsplit(address)
    below = parts.path + (f"?{parts.query}" if parts.query else "")
    return any(_compiled(pattern).match(below if pattern.startswith("/") else address) for pattern in patterns)


def in_reach(source: Source, address: str) -> bool:
    """Whether a page belongs to a source: same site, let in by its patterns, and of a kind that can be read.

    The source's own address always belongs to it.
    """
    if address == source.url:
        return True
    if not same_site(source.url, address) or not looks_readable(address):
        return False
    if source.include and not _matches(address, source.include):
        return False
    return not _matches(address, source.exclude)


def looks_readable(address: str) -> bool:
    """Whether an address, by its ending, may lead to a page or a document."""
    return extension_of(urlsplit(address).path.rpartition("/")[2]) not in _NEVER
