"""A second reader for pages whose text layer PDFium can not decode."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from .cleaning import scrub
from .glyphs import Canvas
from .paragraphs import Draft

MAX_ALIKE = 0.6  # share of letter triples in common with the rejected text
MAX_ODD = 0.05  # share of control, private and replacement characters in a text that is accepted


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
        odd = sum(
            (char < " " and char not in "\n\r\t") or "\ue000" <= char <= "\uf8ff" or char == "\ufffd" for char in text
        )
        if not text.strip() or odd > MAX_ODD * len(text) or _alike(text, rubbish):
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


def _alike(text: str, other: str) -> bool:
    """Whether most of a text's letter triples are also in the other."""
    first, second = _triples(text), _triples(other)
    return bool(first) and len(first & second) > MAX_ALIKE * len(first)


def _triples(text: str) -> set[str]:
    letters = "".join(char for char in text if char.isalnum())
    return {letters[i : i + 3] for i in range(len(letters) - 2)}
