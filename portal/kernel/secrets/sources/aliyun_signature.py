"""The signature of Alibaba Cloud's OpenAPI, version 3 (ACS3-HMAC-SHA256), for RPC-style calls.

Source: "Request syntax and signature method V3", Alibaba Cloud SDK documentation.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

ALGORITHM = "ACS3-HMAC-SHA256"


def signed_headers(
    *,
    key_id: str,
    key_secret: str,
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    body: bytes,
    headers: Mapping[str, str],
) -> dict[str, str]:
    """`headers` (action, version, date, nonce, security token; lower case) with host, hash and Authorization."""
    digest = hashlib.sha256(body).hexdigest()
    named = {**headers, "host": host, "x-acs-content-sha256": digest}
    covered = sorted(name for name in named if name.startswith("x-acs-") or name in {"host", "content-type"})
    canonical = "\n".join(
        (
            method,
            path,
            "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in sorted(query.items())),
            "".join(f"{name}:{named[name].strip()}\n" for name in covered),
            ";".join(covered),
            digest,
        )
    )
    to_sign = f"{ALGORITHM}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(key_secret.encode(), to_sign.encode(), hashlib.sha256).hexdigest()
    authorization = f"{ALGORITHM} Credential={key_id},SignedHeaders={';'.join(covered)},Signature={signature}"
    return {**named, "authorization": authorization}


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")
