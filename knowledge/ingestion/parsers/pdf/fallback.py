"""A second reader for pages whose text layer PDFium can not decode."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

from .cleaning import cjk_count, scrub
from .glyphs import Canvas
from .paragraphs import Draft

MAX_ALIKE = 0.6  # share of letter triples in common with the rejected text
MAX_ODD = 0.05  # share of characters in an accepted text that no text has: control, private, replacement
MAX_RARE = 0.05  # share of lone accents and symbols, which stray codes of a subset font turn into
MAX_ACCENTED = 0.35  # share of accented letters among all; Czech and Vietnamese stay below
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
_RARE = re.compile(
    "[\u02b0-\u02ff\u00a1\u00a2\u00a4-\u00a6\u00a8\u00aa\u00ac\u00af\u00b4\u00b8\u00ba\u00d7\u00f7\u2020\u2021{}~^\\\\|`]"
)
_ACCENTED = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]")


class SecondReader:
    """pdf-oxide on the same file, opened at the first garbled page and not before."""

    def __init__(self, given: Path | bytes) -> None:
        self._given = given
        self._document: Any = None
        self._failed = False

    def __enter__(self) -> SecondReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._document = None

    def page(self, number: int, canvas: Canvas, rubbish: str) -> list[Draft]:
        """The page's paragraphs (boxes: the whole page), or nothing when this reader sees the same rubbish."""
        text = self._text(number)
        if not _plausible(text) or _alike(text, rubbish):
            return []
        box = (0.0, 0.0, canvas.width, canvas.height)
        parts = scrub(text.replace("\r\n", "\n")).split("\n\n")
        return [Draft("paragraph", part.strip(), number, box, 0.0) for part in parts if part.strip()]

    def _text(self, number: int) -> str:
        if self._failed:
            return ""
        try:
            if self._document is None:
                self._document = self._open()
            return str(self._document.extract_text(number - 1))
        except (RuntimeError, ValueError, OSError, IndexError):
            return ""
        except BaseException as error:
            # A panic in the Rust library is no Exception; it must not lose the document.
            if type(error).__name__ != "PanicException":
                raise
            self._failed = True
            return ""

    def _open(self) -> Any:
        import pdf_oxide

        pdf_oxide.disable_logging()
        if isinstance(self._given, bytes):
            return pdf_oxide.PdfDocument.from_bytes(self._given)
        return pdf_oxide.PdfDocument(str(self._given))


def _plausible(text: str) -> bool:
    """Some text, and hardly any of what undecoded codes look like."""
    length = len("".join(text.split()))
    letters = sum(char.isalpha() for char in text)
    accented = len(_ACCENTED.findall(text))
    # No page mixes Chinese with accented letters in number, but stray codes of a Chinese font do.
    if cjk_count(text) > 0.01 * length and accented > 0.02 * length:
        return False
    return (
        length > 0
        and len(_ODD.findall(text)) <= MAX_ODD * length
        and len(_RARE.findall(text)) <= MAX_RARE * length
        and accented <= MAX_ACCENTED * letters
    )


def _alike(text: str, other: str) -> bool:
    """Whether most of a text's letter triples are also in the other."""
    first, second = _triples(text), _triples(other)
    return bool(first) and len(first & second) > MAX_ALIKE * len(first)


def _triples(text: str) -> set[str]:
    letters = "".join(char for char in text if char.isalnum())
    return {letters[i : i + 3] for i in range(len(letters) - 2)}
