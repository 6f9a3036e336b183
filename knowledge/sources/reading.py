"""What an answer of the web becomes: the file of a document, its text for comparing, and where it leads."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings

from knowledge.ingestion.blocks import Source as File
from knowledge.ingestion.parsers import BY_EXTENSION, BY_MIME
from knowledge.ingestion.sandbox import SandboxLimits, parse_file
from knowledge.ingestion.sniff import extension_of
from knowledge.ingestion.web_page import ONLY_MAIN
from knowledge.sources.fetching import Fetched
from portal.kernel.errors import Invalid

HTML = frozenset({"text/html", "application/xhtml+xml"})
READER = "knowledge.ingestion.web_page:parse"
READ_SECONDS = 30  # with the time to fetch it, well below a claim's time to live


@dataclass(frozen=True, slots=True)
class Read:
    """A page as a file: `data` are its bytes, `content_hash` changes only when what people read does."""

    data: bytes
    extension: str
    title: str
    content_hash: str
    links: tuple[str, ...] = ()
    canonical: str = ""


def read(answer: Fetched, *, main_only: bool) -> Read:
    """The page or document in an answer. Raises `Invalid` (page_type) and `ParseError` (page_empty, and others)."""
    if answer.content_type in HTML or (not answer.content_type and answer.body.lstrip()[:1] == b"<"):
        return _page(answer, main_only)
    name = unquote(urlsplit(answer.address).path.rpartition("/")[2])
    row = BY_MIME.get(answer.content_type)
    extension = extension_of(name)
    if extension not in BY_EXTENSION:
        extension = row.extensions[0] if row is not None else ""
    if not extension or extension in {"zip", "json"}:
        raise Invalid("What is at this address is neither a page nor a document that can be read.", code="page_type")
    title = name.removesuffix(f".{extension}") or "document"
    return Read(answer.body, extension, title[:300], hashlib.sha256(answer.body).hexdigest())


def _page(answer: Fetched, main_only: bool) -> Read:
    """Read in the child process for strangers' files: nobody knows what stands in a page."""
    limits = SandboxLimits(
        memory_mb=settings.ARCHWAY["PARSE_MEMORY_MB"], cpu_seconds=READ_SECONDS, wall_seconds=READ_SECONDS
    )
    with tempfile.TemporaryDirectory(prefix="archway-page-") as folder:
        path = Path(folder) / "page"
        path.write_bytes(_decoded(answer))
        mode = ONLY_MAIN if main_only else "whole"
        document = parse_file(File(path, answer.address, mode), limits, parser=READER)
    facts = document.metadata
    return Read(
        data=document.text.encode("utf-8", "replace"),
        extension="html",
        title=document.title,
        content_hash=hashlib.sha256(facts["text"].encode("utf-8", "replace")).hexdigest(),
        links=tuple(facts["links"].split("\n")) if facts["links"] else (),
        canonical=facts["canonical"],
    )


def _decoded(answer: Fetched) -> bytes:
    """The bytes, as UTF-8 with a mark when the answer's header names an encoding that fits."""
    if not answer.charset or answer.body.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return answer.body
    try:
        return answer.body.decode(answer.charset).encode("utf-8-sig")
    except (LookupError, UnicodeError):
        return answer.body
