"""Catalogue files: .po read and written, .mo compiled. Formats: GNU gettext manual, "The Format of PO/GNU MO Files"."""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from pathlib import Path

from portal.catalogue.words import Message

HEADER = (
    "Project-Id-Version: Archway\n"
    "MIME-Version: 1.0\n"
    "Content-Type: text/plain; charset=UTF-8\n"
    "Content-Transfer-Encoding: 8bit\n"
    "Language: zh_Hans\n"
    "Plural-Forms: nplurals=1; plural=0;\n"
)
_MAGIC = 0x950412DE


def read(path: Path) -> dict[Message, str]:
    """Message → translation ("" when it has none yet). Chinese has one form for all numbers."""
    found: dict[Message, str] = {}
    if not path.exists():
        return found
    fields: dict[str, str] = {}
    last = ""

    def keep() -> None:
        if fields.get("msgid"):
            message = Message(fields["msgid"], fields.get("msgctxt", ""), fields.get("msgid_plural", ""))
            found[message] = fields.get("msgstr", "") or fields.get("msgstr[0]", "")
        fields.clear()

    for line in [*path.read_text("utf-8").splitlines(), ""]:
        if not line.strip():
            keep()
        elif line.startswith('"'):
            fields[last] += ast.literal_eval(line)
        elif not line.startswith("#"):
            last, _, value = line.partition(" ")
            fields[last] = ast.literal_eval(value)
    return found


def write(path: Path, catalogue: Mapping[Message, str]) -> None:
    """Write the .po, sorted by message, so that two people's changes seldom meet."""
    parts = [_entry({"msgid": "", "msgstr": HEADER})]
    for message in sorted(catalogue):
        fields = {"msgctxt": message.context} if message.context else {}
        fields["msgid"] = message.text
        if message.plural:
            fields["msgid_plural"] = message.plural
        fields["msgstr[0]" if message.plural else "msgstr"] = catalogue[message]
        flag = "#, python-format\n" if "%(" in message.text else ""
        parts.append(flag + _entry(fields))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), "utf-8")


def _entry(fields: Mapping[str, str]) -> str:
    return "".join(f"{name} {_quoted(value)}\n" for name, value in fields.items())


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    if "\n" not in value:
        return f'"{escaped}"'
    lines = [f'"{line}"' for line in escaped.replace("\n", "\\n\n").split("\n") if line]
    return "\n".join(['""', *lines])


def compile_mo(catalogue: Mapping[Message, str]) -> bytes:
    """The .mo of all translated messages: little-endian, sorted by id, without a hash table."""
    pairs = {b"": HEADER.encode()}
    for message, translation in catalogue.items():
        if translation:
            key = f"{message.key}\x00{message.plural}" if message.plural else message.key
            pairs[key.encode()] = translation.encode()
    rows = sorted(pairs.items())
    start = 28
    text_at = start + 16 * len(rows)
    table, body = b"", b""
    # All ids first, then all translations: one table of (length, place) after the other.
    for text in [key for key, _ in rows] + [translation for _, translation in rows]:
        table += struct.pack("<2I", len(text), text_at + len(body))
        body += text + b"\x00"
    return struct.pack("<7I", _MAGIC, 0, len(rows), start, start + 8 * len(rows), 0, 0) + table + body
