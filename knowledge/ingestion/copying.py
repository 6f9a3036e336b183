"""A revision's chunks once more, for a model that its vectors are of no use to; what people made of the chunks stays.

All columns are copied whatever they are, so that a column that is added later is not forgotten here.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Model

from knowledge import lifecycle
from knowledge.models import Chunk, ChunkVersion, Document, PicturePlace, RecognisedText, Revision, StoredImage

# What a file is and what was read in it; how the work on it went stays behind.
_CARRIED = (
    "file", "file_name", "sha256", "mime", "size", "warnings", "page_count", "chunk_count", "token_count",
    "parsed_key", "raw_key",
)  # fmt: skip
_PLACED = ("revision_id", "image_id")


def copy_for_embedding(document: Document, revision: Revision, *, created_by_id: int | None) -> Revision:
    """Queue a new revision with the chunks and pictures of an indexed one: only vectors are to be made.

    Must be called in a transaction. Raises `Conflict` (revision_open).
    """
    fields: dict[str, Any] = {name: getattr(revision, name) for name in _CARRIED}
    copy = lifecycle.add_revision(document, created_by_id=created_by_id, stage="embed", **fields)
    with connection.cursor() as cursor:
        for statement in _statements():
            cursor.execute(statement, {"old": revision.pk, "new": copy.pk})
    return copy


def _statements() -> list[str]:
    """Passages, then what hangs on them: leaves and versions find their copy by its place."""
    chunks = _columns(Chunk, "revision_id", "parent_id")
    versions = _columns(ChunkVersion, "chunk_id")
    images = _columns(StoredImage, "revision_id", "uid")
    fresh = (
        "JOIN knowledge_chunk old ON old.id = {0} JOIN knowledge_chunk fresh "
        "ON fresh.revision_id = %(new)s AND fresh.level = old.level AND fresh.ordinal = old.ordinal"
    )
    return [
        f"INSERT INTO knowledge_chunk (revision_id, parent_id, {chunks}) "  # noqa: S608 (columns of our own models)
        f"SELECT %(new)s, NULL, {chunks} FROM knowledge_chunk WHERE revision_id = %(old)s AND parent_id IS NULL",
        f"INSERT INTO knowledge_chunk (revision_id, parent_id, {chunks}) "  # noqa: S608
        f"SELECT %(new)s, fresh.id, {_columns(Chunk, 'revision_id', 'parent_id', prefix='leaf.')} "
        f"FROM knowledge_chunk leaf {fresh.format('leaf.parent_id')} WHERE leaf.revision_id = %(old)s",
        f"INSERT INTO knowledge_chunkversion (chunk_id, {versions}) "  # noqa: S608
        f"SELECT fresh.id, {_columns(ChunkVersion, 'chunk_id', prefix='kept.')} "
        f"FROM knowledge_chunkversion kept {fresh.format('kept.chunk_id')} WHERE old.revision_id = %(old)s",
        f"INSERT INTO knowledge_storedimage (revision_id, uid, {images}) "  # noqa: S608
        f"SELECT %(new)s, substr(md5(random()::text || clock_timestamp()::text || id), 1, 16), {images} "
        "FROM knowledge_storedimage WHERE revision_id = %(old)s",
        f"INSERT INTO knowledge_pictureplace (revision_id, image_id, {_columns(PicturePlace, *_PLACED)}) "  # noqa: S608
        f"SELECT %(new)s, fresh.id, {_columns(PicturePlace, *_PLACED, prefix='kept.')} "
        "FROM knowledge_pictureplace kept "
        "LEFT JOIN knowledge_storedimage old ON old.id = kept.image_id "
        "LEFT JOIN knowledge_storedimage fresh ON fresh.revision_id = %(new)s AND fresh.key = old.key "
        "WHERE kept.revision_id = %(old)s",
        f"INSERT INTO knowledge_recognisedtext (revision_id, {_columns(RecognisedText, 'revision_id')}) "  # noqa: S608
        f"SELECT %(new)s, {_columns(RecognisedText, 'revision_id')} FROM knowledge_recognisedtext "
        "WHERE revision_id = %(old)s",
    ]


def _columns(model: type[Model], *besides: str, prefix: str = "") -> str:
    names = [field.column for field in model._meta.concrete_fields]
    return ", ".join(f'{prefix}"{name}"' for name in names if name not in {"id", *besides})
