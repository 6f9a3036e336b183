"""A whole file read: converted where it must be, parsed, its pictures recognised. No ORM, no settings.

Alone decides the order of the stages and what a person is told when no text came out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from knowledge.ingestion.blocks import NO_TEXT, ParseContext, ParsedDocument, Source
from knowledge.ingestion.convert import LEGACY, ConvertLimits, converted
from knowledge.ingestion.finishing import has_text
from knowledge.ingestion.ocr.availability import is_installed
from knowledge.ingestion.ocr.recognising import Course, InMemory, Kept, OcrLimits, recognised_pages, with_picture_texts
from knowledge.ingestion.sandbox import SandboxLimits, parse_file
from portal.kernel.errors import ParseError

# Which pictures are recognised: also those inside documents, only pages and files that are pictures, none.
Recognition = Literal["all", "pages", "off"]
PICTURED = frozenset({"application/pdf"})

NOT_INSTALLED = (
    "The text of this file stands on pictures. To read it, an administrator of this server installs text "
    "recognition (the optional extra “ocr”)."
)
SWITCHED_OFF = (
    "The text of this file stands on pictures. To read it, switch on text recognition in the settings of this "
    "knowledge base and try again."
)
NOTHING_RECOGNISED = "No text was recognised on the pictures of this file."


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Limits of each stage, and which pictures are recognised (where the extra is installed)."""

    recognition: Recognition = "all"
    parsing: SandboxLimits = field(default_factory=SandboxLimits)
    ocr: OcrLimits = field(default_factory=OcrLimits)
    converting: ConvertLimits = field(default_factory=ConvertLimits)
    context: ParseContext = field(default_factory=ParseContext)
    group: str | None = None  # whose files one process may read, one after the other (`parse_file`)

    @property
    def recognises(self) -> bool:
        return self.recognition != "off" and is_installed()


def read_file(
    source: Source,
    options: ReadOptions,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    pause: Callable[[], None] = lambda: None,
    should_stop: Callable[[], bool] | None = None,
    kept: Kept | None = None,
) -> ParsedDocument:
    """The document in a file, with all the text that can be read here.

    `progress(done, total)` counts pages (then pictures); `pause()` is called where work may end, and may
    raise to end it: what is in `kept` is not done again. Raises `ParseError`.
    """
    if source.mime in LEGACY:
        with converted(source, options.converting, should_stop) as modern:
            document = _read(modern, options, progress, pause, should_stop, kept or InMemory())
        return replace(document, mime=source.mime)
    return _read(source, options, progress, pause, should_stop, kept or InMemory())


def _read(
    source: Source,
    options: ReadOptions,
    progress: Callable[[int, int], None],
    pause: Callable[[], None],
    should_stop: Callable[[], bool] | None,
    kept: Kept,
) -> ParsedDocument:
    context = replace(options.context, ocr=options.recognises)
    try:
        document = parse_file(source, options.parsing, progress, should_stop, context=context, group=options.group)
    except ParseError as error:
        raise _advised(error, source, options) from error
    course = Course(progress, pause, should_stop)
    if document.unread:
        with recognised_pages(source, document.unread, kept, options.ocr, context, course) as known:
            read = len(document.unread)
            document = parse_file(
                known,
                options.parsing,
                lambda done, total: progress(read, read),
                should_stop,
                context=context,
                group=options.group,
            )
    if options.recognises and options.recognition == "all" and not source.mime.startswith("image/"):
        document = with_picture_texts(document, kept, options.ocr, context, course)
    if not has_text(document):
        raise ParseError(NOTHING_RECOGNISED, code="no_text")
    return document


def _advised(error: ParseError, source: Source, options: ReadOptions) -> ParseError:
    """A file without text that could be on its pictures: how to have them read."""
    pictured = source.mime in PICTURED or source.mime.startswith("image/")
    pictured = pictured and error.message != NO_TEXT
    if error.code != "no_text" or not pictured or options.recognises:
        return error
    return ParseError(SWITCHED_OFF if is_installed() else NOT_INSTALLED, code="no_text")
