"""RTF's surface: control words, groups and bytes, and the state that a group carries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n\x00]+|([^\\{}\r\n\x00]+)|\\",
    re.DOTALL,
)
SYMBOL = "symbol"  # no code page: the bytes are places in the font
# \fcharset numbers (specification 1.9.1, "Font Table").
CODE_PAGES = {
    2: SYMBOL,
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437",
}  # fmt: skip


@dataclass(slots=True)
class Group:
    """What `{` saves and `}` restores."""

    destination: str = "body"
    font: int = 0
    fallback: int = 1
    hidden: bool = False
    in_table: bool = False
    style: int = 0
    outline: int = 0
    two_forms: bool = False

    def inner(self) -> Group:
        return replace(self, two_forms=False)

    def paragraph(self) -> None:
        """Back to the paragraph defaults (`\\pard`)."""
        self.in_table, self.style, self.outline = False, 0, 0


def tokens(data: bytes) -> Iterator[tuple[str, bytes, int | None]]:
    """(`word`, name, number), (`hex`, b"", byte), (`symbol`, character), (`open`/`close`) and (`text`, bytes)."""
    position = 0
    size = len(data)
    while position < size:
        found = _TOKEN.match(data, position)
        if found is None:
            return
        position = found.end()
        word, number, code, symbol, brace, text = found.groups()
        if word:
            value = int(number) if number else None
            if word == b"bin":  # raw bytes follow; they may hold braces
                position += max(0, value or 0)
            else:
                yield "word", word, value
        elif text:
            yield "text", text, None
        elif code:
            yield "hex", b"", int(code, 16)
        elif brace:
            yield ("open" if brace == b"{" else "close"), b"", None
        elif symbol:
            yield "symbol", symbol, None
