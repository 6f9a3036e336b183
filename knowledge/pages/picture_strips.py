"""The pictures that stand with a passage in lists of passages and previews, by the addresses of their document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.images.places import pictured
from knowledge.models import Revision


@dataclass(frozen=True, slots=True)
class StripImage:
    """One picture: where it is served in full and small, and what it shows."""

    url: str
    thumbnail: str
    alt: str


@dataclass(frozen=True, slots=True)
class Strip:
    """The pictures of one passage; `recognised`: text of it was read from a picture."""

    images: tuple[StripImage, ...] = ()
    recognised: bool = False


def strips(revision: Revision, stretches: Sequence[tuple[int, int, int]]) -> dict[int, Strip]:
    """Strips of stretches (id, start, end) of the revision's text, which the caller may see, by id."""
    document = revision.document
    home = f"/bases/{document.base.uid}/documents/{document.uid}/images"
    found = pictured([(key, revision.pk, start, end) for key, start, end in stretches])
    return {
        key: Strip(
            tuple(
                StripImage(url, f"{url}&size=small", image.alt)
                for image in shown.images
                for url in [f"{home}/{image.key}/?rev={revision.number}"]
            ),
            shown.recognised,
        )
        for key, shown in found.items()
    }
