"""What the upload page and the tray tell people beforehand: limits and accepted types. `intake` decides."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from knowledge import intake
from knowledge.ingestion.parsers import ACCEPTED_EXTENSIONS, FILE_TYPES

# What the table of types calls them where it is a word and no name; the table itself knows no Django.
WORDS = (
    gettext_noop("Text"),
    gettext_noop("OpenDocument text"),
    gettext_noop("E-mail"),
    gettext_noop("ZIP of documents"),
)


def upload_rules() -> dict[str, Any]:
    """What the dialogue shows and the tray checks beforehand; `type_limits` (MB by extension) and `junk` are JSON."""
    most = settings.ARCHWAY["MAX_UPLOAD_BYTES"] // 1_048_576
    limits = {extension: min(row.limit_mb, most) for row in FILE_TYPES for extension in row.extensions}
    return {
        "max_mb": most,
        "max_files": settings.ARCHWAY["MAX_UPLOAD_BATCH"],
        # The tray sends file by file, so a folder may hold more than one form takes.
        "max_tray_files": settings.ARCHWAY["MAX_FOLDER_FILES"],
        "junk": json.dumps(intake.JUNK),
        "accept": ",".join(ACCEPTED_EXTENSIONS),
        "type_labels": [gettext(row.label) for row in FILE_TYPES],
        "type_limits": json.dumps(limits),
    }
