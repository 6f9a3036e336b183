"""Rewrites an Office file so that the same content always gives the same bytes."""

from __future__ import annotations

import io
import re
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

# The moment every sample file claims to have been made.
MADE_AT = "2026-03-24T09:00:00Z"
_ZIP_TIME = (2026, 3, 24, 9, 0, 0)
_STAMP = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*(<)")
# A preview picture of the empty template, which no sample needs.
_DROPPED = "docProps/thumbnail.jpeg"


def repack(data: bytes) -> bytes:
    """The same Office archive with fixed entry times, fixed dates in its properties and no template preview."""
    target = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as old, ZipFile(target, "w") as new:
        for name in old.namelist():
            if name == _DROPPED:
                continue
            content = old.read(name)
            if name == "docProps/core.xml":
                content = _STAMP.sub(rb"\g<1>" + MADE_AT.encode() + rb"\g<2>", content)
            if name == "_rels/.rels":
                content = re.sub(rb"<Relationship [^>]*thumbnail\.jpeg[^>]*/>", b"", content)
            entry = ZipInfo(name, _ZIP_TIME)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            new.writestr(entry, content, compresslevel=9)
    return target.getvalue()
