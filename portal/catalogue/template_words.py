"""Messages in templates. Django turns a template into text with gettext calls in it; this reads the calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.utils.translation.template import templatize

from portal.catalogue.words import Message

_CALL = re.compile(r"\b(gettext|ngettext|pgettext|npgettext|_)\(")
_LITERAL = re.compile(r"""\s*u?((?:'(?:[^'\\]|\\.)*')|(?:"(?:[^"\\]|\\.)*"))\s*(,?)""", re.DOTALL)


def messages(paths: Iterable[Path]) -> set[Message]:
    """All messages of these templates."""
    return {message for path in paths for message in of_template(path.read_text("utf-8"), str(path))}


def of_template(source: str, origin: str) -> Iterator[Message]:
    """The messages of one template."""
    text = templatize(source, origin=origin)
    for call in _CALL.finditer(text):
        arguments = list(_literals(text, call.end()))
        if arguments and (message := _message(call.group(1), arguments)) is not None:
            yield message


def _literals(text: str, place: int) -> Iterator[str]:
    while found := _LITERAL.match(text, place):
        value = ast.literal_eval(found.group(1).replace("\n", "\\n"))
        yield value
        place = found.end()
        if not found.group(2):
            return


def _message(function: str, arguments: list[str]) -> Message | None:
    match function, arguments:
        case "gettext" | "_", [text, *_]:
            return Message(text) if text.strip() else None
        case "ngettext", [text, plural, *_]:
            return Message(text, plural=plural)
        case "pgettext", [context, text, *_]:
            return Message(text, context=context)
        case "npgettext", [context, text, plural, *_]:
            return Message(text, context=context, plural=plural)
    return None
