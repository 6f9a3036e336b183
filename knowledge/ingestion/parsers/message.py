"""E-mail (EML, also MHTML): subject, people and date, the body once, and the attachments that can be read."""

from __future__ import annotations

import email
import email.errors
import email.header
import email.utils
import re
from email.message import Message
from email.policy import compat32

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import decode, normalise
from knowledge.ingestion.parsers.html import decode_html, embedded_picture, walk_html
from knowledge.ingestion.parsers.html_walk import Walker
from knowledge.ingestion.parsers.members import Members
from knowledge.ingestion.parsers.text import paragraphs
from portal.kernel.errors import ParseError

MIME = "message/rfc822"
PEOPLE = ("From", "To", "Cc", "Date")
MAX_PARTS = 1_000
BODIES = ("text/plain", "text/html")
UNREAD = ("text/css", "text/javascript", "text/x-amp-html")
_BROKEN_FOLDING = re.compile(r"\s*\n\s*")


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Subject as heading, then people and date, then the body: plain text if there is any, else HTML.

    Attachments follow, each under a heading with its name. Raises `ParseError` (`damaged_file`).
    """
    try:
        message = email.message_from_bytes(source.read(), policy=compat32)
        parts = _parts(message)
    except (RecursionError, email.errors.MessageError, ValueError, LookupError) as error:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
    walker = Walker(context, _pictures_of(parts))
    subject = _header(message, "Subject")
    heading = walker.outline.heading(1, subject)
    if heading:
        walker.blocks.append(heading)
    people = [f"{name}: {value}" for name in PEOPLE if (value := _header(message, name))]
    if people:
        walker.blocks.append(Block(kind="paragraph", text="\n".join(people), heading_path=walker.outline.path))
    warnings = _body(parts, walker)
    members = Members(context)
    attached = [part for part in parts if _is_attachment(part)]
    for index, part in enumerate(attached):
        context.progress(index, len(attached))
        members.add(_name(part, index), _payload(part))
    context.progress(1, 1)
    return assemble(
        MIME,
        [*walker.blocks, *members.blocks],
        warnings=[*warnings, *walker.pictures.warnings, *members.warnings],
        images=(*walker.pictures.images, *members.images.values()),
        title=" ".join(subject.split()),
        metadata={name.lower(): value for name in PEOPLE if (value := _header(message, name))},
    )


def body_of(data: bytes, context: ParseContext) -> list[Block]:
    """The body alone of a page saved with its pictures (MHTML) that stands inside another document.

    Raises `ParseError` (`damaged_file`).
    """
    try:
        parts = _parts(email.message_from_bytes(data, policy=compat32))
    except (RecursionError, email.errors.MessageError, ValueError, LookupError) as error:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
    walker = Walker(context, lambda address: None)
    _body(parts, walker)
    return walker.blocks


def _parts(message: Message) -> list[Message]:
    """The leaves of the message, one form of each text; a forwarded message is a leaf, to be read as a member."""
    leaves = _leaves(message)
    dropped: set[int] = set()
    for part in message.walk():
        if part.get_content_type() == "multipart/alternative":
            forms = [form for form in _leaves(part) if not _is_attachment(form)]
            plain = any(_payload(form).strip() for form in _of_type(forms, "text/plain"))
            kept = "text/plain" if plain else "text/html"
            dropped.update(id(form) for form in forms if _is_text(form) and form.get_content_type() != kept)
    return [part for part in leaves if id(part) not in dropped]


def _leaves(message: Message) -> list[Message]:
    leaves: list[Message] = []
    waiting: list[Message] = [message]
    while waiting:
        part = waiting.pop()
        payload = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(payload, list):
            waiting.extend(inner for inner in reversed(payload) if isinstance(inner, Message))
        else:
            leaves.append(part)
        if len(leaves) > MAX_PARTS:
            raise ParseError("The message has more than %(parts)s parts.", code="archive_limit", parts=MAX_PARTS)
    return leaves


def _body(parts: list[Message], walker: Walker) -> list[str]:
    """All that is text and no attachment, in its order; a calendar entry and the like as plain text."""
    warnings: list[str] = []
    for part in parts:
        kind = part.get_content_type()
        if _is_attachment(part) or not _is_text(part) or kind in UNREAD:
            continue
        data, declared = _payload(part), part.get_content_charset()
        decoded = decode_html(data) if kind == "text/html" and not declared else decode(data, declared=declared)
        warnings += decoded.warnings
        if kind == "text/html":
            walk_html(decoded.text, walker)
        else:
            path = walker.outline.path
            text = decoded.text
            if str(part.get_param("format", "")).lower() == "flowed":
                text = unwrapped(text, joined=str(part.get_param("delsp", "")).lower() == "yes")
            walker.blocks += [Block(kind="paragraph", text=words, heading_path=path) for words in paragraphs(text)]
    return warnings


def unwrapped(text: str, *, joined: bool) -> str:
    """Lines that a mail program wrapped as its reader sees them; `joined`: the space at the end is only a mark.

    Source: RFC 3676 (format=flowed, DelSp).
    """
    lines: list[str] = []
    goes_on = False
    depth = 0
    for line in text.split("\n"):
        words = line.lstrip(">")
        quoted = len(line) - len(words)
        words = words.removeprefix(" ")
        is_signature = words.rstrip() == "--" and words != "--"
        if goes_on and quoted == depth and not is_signature:
            lines[-1] = (lines[-1][:-1] if joined else lines[-1]) + words
        else:
            lines.append("> " * quoted + words)
        goes_on, depth = words.endswith(" ") and not is_signature, quoted
    return "\n".join(lines)


def _of_type(parts: list[Message], kind: str) -> list[Message]:
    return [part for part in parts if part.get_content_type() == kind]


def _is_text(part: Message) -> bool:
    return part.get_content_maintype() == "text"


def _is_attachment(part: Message) -> bool:
    kind = part.get_content_type()
    if part.get_content_disposition() == "attachment" or kind == "message/rfc822":
        return True
    if _is_text(part):  # a file that is shown where it stands, but no body
        return kind not in (*BODIES, *UNREAD) and bool(part.get_filename())
    return not (part.get_content_maintype() == "image" and part.get("Content-ID")) and bool(_payload(part))


def _payload(part: Message) -> bytes:
    payload = part.get_payload()
    if isinstance(payload, list):
        return b"".join(inner.as_bytes() for inner in payload if isinstance(inner, Message))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _name(part: Message, index: int) -> str:
    name = part.get_filename()
    if name:
        return _decoded(name)
    return f"message-{index + 1}.eml" if part.get_content_type() == "message/rfc822" else f"attachment-{index + 1}"


def _header(message: Message, name: str) -> str:
    value = message.get(name)
    return _decoded(value) if value is not None else ""


def _decoded(value: object) -> str:
    """A header in words: RFC 2047 pieces decoded, raw 8-bit bytes (common in Chinese mail) guessed."""
    try:
        pieces = email.header.decode_header(value if isinstance(value, email.header.Header) else str(value))
    except (email.errors.HeaderParseError, ValueError):
        pieces = [(str(value), None)]
    text = ""
    for piece, charset in pieces:
        raw = piece.encode("utf-8", "surrogateescape") if isinstance(piece, str) else piece
        text += decode(raw, declared=None if charset == "unknown-8bit" else charset).text
    return _BROKEN_FOLDING.sub(" ", normalise(text)).strip()


def _pictures_of(parts: list[Message]) -> _Pictures:
    return _Pictures({key: part for part in parts for key in _keys(part) if part.get_content_maintype() == "image"})


def _keys(part: Message) -> list[str]:
    identity = str(part.get("Content-ID") or "").strip().strip("<>")
    location = str(part.get("Content-Location") or "").strip()
    return [key for key in (f"cid:{identity}" if identity else "", location) if key]


class _Pictures:
    """Finds pictures that travel with the message, by `cid:` or location."""

    def __init__(self, parts: dict[str, Message]) -> None:
        self._parts = parts

    def __call__(self, address: str) -> bytes | None:
        part = self._parts.get(address)
        return _payload(part) if part is not None else embedded_picture(address)
