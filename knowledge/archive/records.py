"""What every part of an archive has in common: lines of JSON, one canonical form, and what may stand in them.

An archive comes from anywhere, so each line is checked against its shape before anything is written:
unknown fields, wrong types, characters that no column holds and numbers out of range are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def _storable(text: str) -> str:
    if _UNSTORABLE.search(text):
        raise ValueError("characters that can not be stored")
    return text


def _storable_json(value: Any) -> Any:
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, dict):
        return {_storable(key): _storable_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable_json(item) for item in value]
    return value


# A string of characters that a column holds; each field says how many at most.
Text = Annotated[str, AfterValidator(_storable)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# A non-negative number that PostgreSQL's integer holds.
Count = Annotated[int, Field(ge=0, le=2_147_483_647)]
Json = Annotated[dict[str, JsonValue], AfterValidator(_storable_json)]


class Record(BaseModel):
    """One line of a part. `VOLATILE` fields are carried along and are no part of the content's hash."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    VOLATILE: ClassVar[frozenset[str]] = frozenset()

    def line(self) -> bytes:
        """The record as it stands in the archive, with its newline."""
        return canonical(self.model_dump(mode="json")) + b"\n"

    def counted(self) -> bytes:
        """What of the record counts for the content's hash."""
        return canonical(self.model_dump(mode="json", exclude=set(self.VOLATILE))) + b"\n"


def canonical(value: Any) -> bytes:
    """JSON in one way only: keys sorted, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
