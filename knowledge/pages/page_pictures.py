"""Pictures of PDF pages for the reader, with the cited blocks framed. Drawn in a limited child process."""

from __future__ import annotations

from knowledge.models import Revision


def has_pictures(revision: Revision | None) -> bool:
    """Whether pages of this file can be drawn."""
    return revision is not None and revision.mime == "application/pdf"
