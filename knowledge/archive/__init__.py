"""A base as one file, and a base from such a file.

`parts` is the table of what an archive holds, one module a row. `writing` makes the zip, `reading` looks through one
that nobody vouches for, `building` makes a base of it, `jobs` are what people start and workers do.
"""

from knowledge.archive.jobs import (
    delete,
    download,
    estimate,
    forget_expired,
    is_over,
    refuse_import,
    start_export,
    start_import,
    work,
)
from knowledge.archive.manifest import no_archive

__all__ = [
    "delete",
    "download",
    "estimate",
    "forget_expired",
    "is_over",
    "no_archive",
    "refuse_import",
    "start_export",
    "start_import",
    "work",
]
