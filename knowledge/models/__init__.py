"""The tables of knowledge. Rules stand elsewhere: access, lifecycle, schedule, intake (see HOUSE style)."""

from knowledge.models.bases import Grant, KnowledgeBase, Role
from knowledge.models.chunks import Chunk, ChunkVector, ChunkVersion
from knowledge.models.documents import Attempt, Document, Revision, StoredImage
from knowledge.models.queries import QueryRecord
from knowledge.models.statistics import BaseTerm, RevisionTerms

__all__ = [
    "Attempt",
    "BaseTerm",
    "Chunk",
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
