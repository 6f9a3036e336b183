"""What people say of a document when they add it: its tags and facts, checked before a byte of it is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from knowledge import metadata as facts
from knowledge import tags as vocabulary
from knowledge.models import Document
from portal.kernel.errors import Invalid


@dataclass(frozen=True, slots=True)
class Details:
    """Tags and metadata as `knowledge.tags` and `knowledge.metadata` keep them."""

    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def checked(cls, tags: Iterable[str], metadata: Any) -> Details:
        """Raises `Invalid` (tags_invalid, metadata_invalid)."""
        if not isinstance(metadata, Mapping):
            raise Invalid("Metadata is an object of keys and values.", code="metadata_invalid")
        return cls(tuple(vocabulary.clean_many(tags)), facts.checked(metadata))

    @classmethod
    def written(cls, tags: str | Iterable[str], metadata: str) -> Details:
        """From fields of a form: tags separated by commas, metadata as `key: value` lines or a JSON object.

        Raises `Invalid` (tags_invalid, metadata_invalid).
        """
        texts = [tags] if isinstance(tags, str) else tags
        return cls.checked((name for text in texts for name in re.split("[,，\n]", text)), _object(metadata))

    @property
    def as_json(self) -> dict[str, Any]:
        """What `checked` takes again, by its names."""
        return {"tags": list(self.tags), "metadata": dict(self.metadata)}

    def give(self, document: Document, *, by: int | None) -> bool:
        """Add them to a document, in the caller's transaction; what else it has stays. Whether anything changed.

        Metadata given here counts as set by hand: a later version of the file does not change it. Raises `Invalid`.
        """
        had = (document.tags, document.metadata, document.metadata_by_hand)
        tags = [*document.tags, *vocabulary.adopt(document.base_id, self.tags, by=by)]
        document.tags = vocabulary.clean_many(tags)
        if self.metadata:
            wanted = facts.checked({**document.metadata, **self.metadata})
            by_hand = {*document.metadata_by_hand, *self.metadata}
            document.metadata, document.metadata_by_hand = wanted, sorted(by_hand)
        if had == (document.tags, document.metadata, document.metadata_by_hand):
            return False
        document.save(update_fields=["tags", "metadata", "metadata_by_hand", "updated_at"])
        return True


def _object(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return facts.from_lines(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid("Metadata is no JSON object.", code="metadata_invalid") from error
