"""The tables of knowledge. Rules stand elsewhere: access, lifecycle, schedule, intake (see HOUSE style)."""

from knowledge.models.background import Archive, Batch, BatchItem
from knowledge.models.bases import Grant, KnowledgeBase, Role
from knowledge.models.chunks import Chunk, ChunkVector, ChunkVersion
from knowledge.models.documents import Attempt, Document, Revision, StoredImage
from knowledge.models.evaluations import CaseResult, CaseTarget, EvaluationCase, EvaluationRun, SettledQuestion
from knowledge.models.generations import Generation, GenerationMark
from knowledge.models.model_changes import ModelChange
from knowledge.models.pictures import PicturePlace, RecognisedText
from knowledge.models.queries import QueryRecord
from knowledge.models.questions import ChunkQuestion, QuestionVector
from knowledge.models.sources import Origin, Source, SourcePage, SourceRun, Upload
from knowledge.models.statistics import BaseTerm, RevisionTerms
from knowledge.models.tags import Tag
from knowledge.models.terms import Term, TermChange

__all__ = [
    "Archive",
    "Attempt",
    "BaseTerm",
    "Batch",
    "BatchItem",
    "CaseResult",
    "CaseTarget",
    "Chunk",
    "ChunkQuestion",
    "ChunkVector",
    "ChunkVersion",
    "Document",
    "EvaluationCase",
    "EvaluationRun",
    "Generation",
    "GenerationMark",
    "Grant",
    "KnowledgeBase",
    "ModelChange",
    "Origin",
    "PicturePlace",
    "QueryRecord",
    "QuestionVector",
    "RecognisedText",
    "Revision",
    "RevisionTerms",
    "Role",
    "SettledQuestion",
    "Source",
    "SourcePage",
    "SourceRun",
    "StoredImage",
    "Tag",
    "Term",
    "TermChange",
    "Upload",
]
