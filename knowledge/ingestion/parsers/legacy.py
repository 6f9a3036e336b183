"""Old Word and PowerPoint files where nothing converts them: inside archives and messages, or without LibreOffice.

`knowledge/ingestion/convert.py` converts them before they are parsed.
"""

from __future__ import annotations

from typing import NoReturn

from knowledge.ingestion.blocks import ParseContext, Source
from portal.kernel.errors import ParseError

NEEDS_CONVERTER = "This is an old Office format: save it as DOCX or PPTX."


def parse(source: Source, context: ParseContext) -> NoReturn:
    """Always raises `ParseError` (`needs_converter`)."""
    raise ParseError(NEEDS_CONVERTER, code="needs_converter")
