"""What the upload page and the tray tell people beforehand: limits and accepted types. `intake` decides."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from knowledge.ingestion.parsers import ACCEPTED_EXTENSIONS, FILE_TYPES


def upload_rules() -> dict[str, Any]:
    """`max_mb`, `max_files`, `accept`, the labels of the types, and the limit in MB by extension as JSON."""
    most = settings.ARCHWAY["MAX_UPLOAD_BYTES"] // 1_048_576
    limits = {extension: min(row.limit_mb, most) for row in FILE_TYPES for extension in row.extensions}
    return {
        "max_mb": most,
        "max_files": settings.ARCHWAY["MAX_UPLOAD_BATCH"],
        "accept": ",".join(ACCEPTED_EXTENSIONS),
        "type_labels": [row.label for row in FILE_TYPES],
        "type_limits": json.dumps(limits),
    }
