"""What text recognition found, kept in the database: page by page, so that no work is done twice."""

from __future__ import annotations

from typing import Any

from knowledge.ingestion.ocr.recognising import VERSION
from knowledge.models import RecognisedText, Revision


class KeptTexts:
    """`Kept` of one revision; what other revisions of the base found in the same bytes counts too.

    A failure counts only until somebody queues the revision anew.
    """

    def __init__(self, revision: Revision) -> None:
        self._revision = revision
        same = RecognisedText.objects.filter(
            version=VERSION, revision__base_id=revision.base_id, revision__sha256=revision.sha256
        ).order_by("id")
        self._values: dict[str, dict[str, Any]] = {}
        for row in same:
            if "failed" not in row.value or (row.revision_id == revision.pk and row.at >= revision.queued_at):
                self._values[row.place] = row.value

    def get(self, place: str) -> dict[str, Any] | None:
        return self._values.get(place)

    def put(self, place: str, value: dict[str, Any]) -> None:
        self._values[place] = value
        RecognisedText.objects.update_or_create(
            revision=self._revision, place=place, version=VERSION, defaults={"value": value}
        )
