"""What a parser left out, in the reader's language. Parsers write `code: English sentence`."""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext_lazy

# code -> (what to take from the English sentence, the sentence to translate)
_KNOWN: dict[str, tuple[str, Any]] = {
    "repeated_lines_dropped": (
        r"^(?P<n>\d+) ",
        gettext_lazy("%(n)s repeated headers, footers or page numbers were left out."),
    ),
    "table_of_contents": ("", gettext_lazy("The table of contents was left out; its headings stand in the text.")),
    "unstorable_characters": ("", gettext_lazy("Characters that can't be stored were taken out.")),
    "characters_removed": (
        r"^(?P<n>\d+) ",
        gettext_lazy("%(n)s control characters or broken characters were taken out."),
    ),
    "replaced_bytes": (
        r"^(?P<n>\d+) places could not be read as (?P<name>\S+),",
        gettext_lazy("%(n)s places could not be read as %(name)s and are replaced by a sign."),
    ),
    "mixed_encodings": (
        r"^(?P<n>\d+) lines were read as (?P<name>\S+), the others as (?P<other>\S+)\.$",
        gettext_lazy("%(n)s lines were read as %(name)s, the others as %(other)s."),
    ),
    "ragged_rows": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s rows are longer than the head row.")),
    "unbalanced_quotes": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s rows have a quotation mark that never closes.")),
    "pictures_left_out": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s pictures were left out: too large or too many.")),
    "pictures_decorative": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s small pictures were left out as decoration.")),
    "pictures_not_shown": (
        r"^(?P<n>\d+) ",
        gettext_lazy("%(n)s pictures are of a kind that can't be shown safely, such as vector drawings."),
    ),
    "pictures_damaged": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s pictures are damaged and were left out.")),
    "pages_without_text": (
        r"page (?P<n>[\d, -]+) ",
        gettext_lazy("Page %(n)s holds pictures only; no text was found."),
    ),
    "pages_recognised": (
        r"page (?P<n>[\d, -]+) ",
        gettext_lazy("The text of page %(n)s was read from pictures by text recognition."),
    ),
    "pages_not_recognised": (r"page (?P<n>[\d, -]+)\.", gettext_lazy("Text recognition failed on page %(n)s.")),
    "pages_beyond_recognition": (
        r"page (?P<n>[\d, -]+) ",
        gettext_lazy("Page %(n)s was not searched for text: there are more scanned pages than the limit."),
    ),
    "pictures_recognised": (
        r"of (?P<n>\d+) ",
        gettext_lazy("The text of %(n)s pictures was read by text recognition."),
    ),
    "pictures_not_recognised": (r"on (?P<n>\d+) ", gettext_lazy("Text recognition failed on %(n)s pictures.")),
    "pictures_beyond_recognition": (
        r"^(?P<n>\d+) ",
        gettext_lazy("%(n)s further pictures were not searched for text."),
    ),
    "image_too_large": ("", gettext_lazy("A picture was left out because it is too large.")),
    "hidden_text": (r"^(?P<n>\d+) ", gettext_lazy("%(n)s pieces of hidden text were left out.")),
    "hidden_slide": (r"Slide (?P<n>\d+) ", gettext_lazy("Slide %(n)s is hidden in the presentation.")),
    "missing_part": (r"Slide (?P<n>\d+) ", gettext_lazy("Slide %(n)s is missing from the file or can't be read.")),
    "embedded_document": ("", gettext_lazy("A document inside the file was left out.")),
    "edits_not_carried": (
        r"^(?P<n>\d+) ",
        gettext_lazy("%(n)s changes made by hand found no place in this split; they stand in the version before it."),
    ),
    "macros": ("", gettext_lazy("The file contains macros; they are never run.")),
}


def sentence(warning: str) -> str:
    """A warning of a parser without its code; in English where no translation is known."""
    code, _, english = warning.partition(": ")
    pattern, translated = _KNOWN.get(code, ("", None))
    match = re.search(pattern, english)
    if translated is None or match is None:
        return english or warning
    return str(translated) % match.groupdict()
