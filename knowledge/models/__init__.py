"""The tables of knowledge. Rules stand elsewhere: access, lifecycle, schedule, intake (see HOUSE style)."""

from knowledge.models.background import Archive, Batch, BatchItem
from knowledge.models.bases import Grant, KnowledgeBase, Role
from knowledge.models.chunks import Chunk, ChunkVector, ChunkVersion
from knowledge.models.documents import Attempt, Document, Revision, StoredImage
from knowledge.models.queries import QueryRecord
from knowledge.models.statistics import BaseTerm, RevisionTerms

from knowledge.models.tags import Tag
__all__ = [
    "Attempt",
    "Archive",
    "BaseTerm",
    "Chunk",
    "Batch",
    "BatchItem",
    "ChunkVector",
    "ChunkVersion",
    "Document",
    "Grant",
    "KnowledgeBase",
    "QueryRecord",
    "Revision",
    "RevisionTerms",
    "Role",
    "StoredImage",
]
    "Tag",
