"""What the upload page and the tray tell people beforehand: limits and accepted types. `intake` decides."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from knowledge import intake
from knowledge.ingestion.parsers import ACCEPTED_EXTENSIONS, FILE_TYPES


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
        "type_labels": [row.label for row in FILE_TYPES],
        "type_limits": json.dumps(limits),
    }
