"""Facts about documents by which searches are narrowed: which keys and values there may be, and what a filter means.

Values are text, numbers, true or false, or lists of texts. Dates are text in the order of years: 2026-11-30.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Func, Q, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTransform
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from knowledge.models import Document, Revision
from knowledge.text import clean
from portal.kernel.errors import Invalid

MOST_KEYS, LONGEST_KEY = 50, 60
LONGEST_VALUE, MOST_VALUES = 500, 50
MOST_CONDITIONS = 10
# What parsers say about the file itself rather than about what it deals with.
_OF_THE_FILE = frozenset({"encoding", "title"})
_KEY = re.compile(r"[^\W_][\w .\-/]*")

Operator = Literal["=", "in", ">=", "<=", ">", "<"]
OPERATORS: tuple[Operator, ...] = ("=", "in", ">=", "<=", ">", "<")
Scalar = str | int | float | bool
_RANGES: dict[str, Any] = {">=": GreaterThanOrEqual, "<=": LessThanOrEqual, ">": GreaterThan, "<": LessThan}


@dataclass(frozen=True, slots=True)
class Condition:
    """`key` `op` `value`; several values for `in` only. A document without the key never matches.

    A list of texts matches when one of them does. Numbers are compared with numbers, texts with texts.
    """

    key: str
    op: Operator
    values: tuple[Scalar, ...]


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and values as they are kept; keys whose value is None or empty are left out. Raises `Invalid`."""
    kept: dict[str, Any] = {}
    for raw, value in values.items():
        key = " ".join(clean(str(raw)).split())
        if not _KEY.fullmatch(key) or len(key) > LONGEST_KEY:
            raise Invalid(
                "A key begins with a letter or digit and has at most %(n)s characters.",
                code="metadata_invalid",
                n=LONGEST_KEY,
            )
        made = _value(value)
        if made is not None:
            kept[key] = made
    if len(kept) > MOST_KEYS:
        raise Invalid("A document takes at most %(n)s keys.", code="metadata_invalid", n=MOST_KEYS)
    return kept


def _value(value: Any) -> Any:
    if value is None or value == "" or value == []:
        return None
    if isinstance(value, list | tuple):
        if len(value) > MOST_VALUES or not all(isinstance(one, str) for one in value):
            raise Invalid("A list holds at most %(n)s texts.", code="metadata_invalid", n=MOST_VALUES)
        texts = [text for text in (_scalar(one) for one in value) if text != ""]
        return list(dict.fromkeys(texts)) or None
    made = _scalar(value)
    return None if made == "" else made


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > 1e15:
            raise Invalid("Write a number of at most 15 digits.", code="metadata_invalid")
        return value
    if not isinstance(value, str):
        raise Invalid("A value is text, a number, true, false, or a list of texts.", code="metadata_invalid")
    text = " ".join(clean(value).split())
    if len(text) > LONGEST_VALUE:
        raise Invalid("A value has at most %(n)s characters.", code="metadata_invalid", n=LONGEST_VALUE)
    return text


def stated(facts: Mapping[str, str]) -> dict[str, Any]:
    """What a file says about itself, as far as it can be kept: nothing of it is ever an error.

    `12`, `3.5`, `true` and `[a, b]` are a number, true and a list, as front matter means them.
    """
    kept: dict[str, Any] = {}
    for raw, text in facts.items():
        if raw.casefold() in _OF_THE_FILE or len(kept) == MOST_KEYS:
            continue
        try:
            kept |= checked({raw: _meant(text.strip()[:2_000])})
        except Invalid:
            continue
    return kept


def _meant(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [part.strip().strip("\"'") for part in text[1:-1].split(",") if part.strip()]
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,6})?", text):
        return float(text) if "." in text else int(text)
    return text[:LONGEST_VALUE]


def typed(text: str) -> Any:
    """What a person typed into a field, as it is kept: like front matter, and a comma list only in brackets."""
    return _meant(" ".join(text.split()))


def as_lines(values: Mapping[str, Any]) -> str:
    """Facts as a person edits them: `key: value`, one a line."""
    return "\n".join(f"{key}: {_line(value)}" for key, value in sorted(values.items()))


def _line(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_lines(text: str) -> dict[str, Any]:
    """The opposite. Raises `Invalid` (metadata_invalid) for a line without a colon."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not key.strip():
            raise Invalid("Write each line as key: value.", code="metadata_invalid")
        found[key.strip()] = typed(value)
    return found


def of_revision(document: Document, revision: Revision) -> dict[str, Any]:
    """A document's facts once a revision is its current one: those of its file, and over them what people set."""
    own = {key: value for key, value in document.metadata.items() if key in document.metadata_by_hand}
    hidden = set(document.metadata_by_hand)
    return {**{key: value for key, value in revision.metadata.items() if key not in hidden}, **own}


def set_by_hand(document: Document, values: Mapping[str, Any]) -> None:
    """Let a document have exactly these facts; the caller saves it. What its file said and is not there stays away.

    Raises `Invalid` (metadata_invalid).
    """
    wanted = checked(values)
    stated_now = document.active_revision.metadata if document.active_revision else {}
    by_hand = {key for key, value in wanted.items() if stated_now.get(key) != value}
    by_hand |= {key for key in stated_now if key not in wanted}
    document.metadata, document.metadata_by_hand = wanted, sorted(by_hand)


def condition(key: str, op: str, value: Any) -> Condition:
    """A checked condition. Raises `Invalid` (filter_invalid)."""
    if op not in OPERATORS:
        raise Invalid("Compare metadata with one of %(known)s.", code="filter_invalid", known=" ".join(OPERATORS))
    values = list(value) if op == "in" and isinstance(value, list | tuple) else [value]
    try:
        cleaned = [_scalar(one) for one in values]
        name = next(iter(checked({key: "x"})))
    except Invalid as error:
        raise Invalid(error.message, code="filter_invalid", **error.params) from error
    if not 1 <= len(cleaned) <= MOST_VALUES or (op in _RANGES and isinstance(cleaned[0], bool)):
        raise Invalid("Give a value to compare with.", code="filter_invalid")
    return Condition(name, op, tuple(cleaned))


_WRITTEN = re.compile(r"\s*(?P<key>.+?)\s*(?P<op>>=|<=|>|<|=|:|\sin\s)\s*(?P<value>.+?)\s*", re.IGNORECASE)


def parsed(text: str) -> tuple[Condition, ...]:
    """Conditions as people write them, cut at semicolons: `year >= 2024; region in east, west; state = final`.

    Raises `Invalid` (filter_invalid).
    """
    found = []
    for part in re.split(r"[;；\n]+", text):
        if not part.strip():
            continue
        match = _WRITTEN.fullmatch(part)
        if match is None:
            raise Invalid("Write %(part)s as: key = value.", code="filter_invalid", part=part.strip()[:100])
        op = match["op"].strip().casefold().replace(":", "=")
        value = match["value"]
        values = [typed(one) for one in re.split(r"[,，]", value) if one.strip()] if op == "in" else typed(value)
        found.append(condition(match["key"], op, values))
    if len(found) > MOST_CONDITIONS:
        raise Invalid("Give at most %(n)s conditions.", code="filter_invalid", n=MOST_CONDITIONS)
    return tuple(found)


def written(text: str) -> tuple[Condition, ...]:
    """The same where nobody can be told: what can not be read finds nothing, rather than everything."""
    try:
        return parsed(text)
    except Invalid:
        return (Condition("", "=", ("",)),)


def narrowed(documents: QuerySet[Document], conditions: Sequence[Condition]) -> QuerySet[Document]:
    """The documents that fulfil every condition."""
    for one in conditions:
        documents = documents.filter(_query(one))
    return documents


def _query(one: Condition) -> Q:
    if one.op in _RANGES:
        value = one.values[0]
        stored = KeyTransform(one.key, "metadata")
        kind = Exact(Func(stored, function="jsonb_typeof", output_field=TextField()), Value(_kind(value)))
        compared = _RANGES[one.op](stored, Value(value, output_field=Document._meta.get_field("metadata")))
        return Q(kind) & Q(compared)
    found = Q()
    for value in one.values:
        found |= Q(metadata__contains={one.key: value})
        if isinstance(value, str):
            found |= Q(metadata__contains={one.key: [value]})
    return found


def _kind(value: Scalar) -> str:
    return "string" if isinstance(value, str) else "number"
