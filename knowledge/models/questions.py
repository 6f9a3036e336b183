"""Questions as further ways to a passage, and their vectors.

Rows go with their passage and revision by cascades in the database itself, as chunks do.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from knowledge.models.bases import KnowledgeBase
from knowledge.models.chunks import Chunk
from knowledge.models.documents import Revision
from knowledge.models.fields import VaryingBitField
from portal.kernel.models import PublicId


class ChunkQuestion(PublicId):
    """A question that a passage answers, written or generated. Searches match it and return the passage.

    `version` is the passage's when it was written. Which questions may be found is decided by joining document
    and passage, never by a flag of this row except `enabled`, which a person sets on single questions.
    """

    class Origin(models.TextChoices):
        HAND = "hand", _("Written by hand")
        IMPORTED = "imported", _("Imported")
        GENERATED = "generated", _("Generated")
        FILE = "file", _("From the document")

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="questions", verbose_name=_("base"))
    revision = models.ForeignKey(Revision, models.DO_NOTHING, related_name="questions", db_index=False)
    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, related_name="questions", db_index=False)
    version = models.PositiveIntegerField(default=1)
    text = models.TextField(_("question"))
    # What two spellings of one question have in common: of one passage, each question stands once.
    digest = models.CharField(max_length=64, editable=False)
    source = models.CharField(_("source"), max_length=9, choices=Origin.choices, default=Origin.HAND)
    enabled = models.BooleanField(_("enabled"), default=True)
    words = models.PositiveIntegerField(default=0, editable=False)
    lexemes = SearchVectorField(null=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("question")
        verbose_name_plural = _("questions")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint("chunk", "digest", name="question_once")]
        indexes = [
            models.Index(fields=["revision"], name="question_revision"),
            models.Index(fields=["base", "-id"], name="question_of_base"),
            GinIndex(fields=["lexemes"], name="question_lexemes"),
        ]

    def __str__(self) -> str:
        return self.text


class QuestionVector(models.Model):
    """A question's vector in one embedding space; columns as in `ChunkVector`."""

    question = models.ForeignKey(ChunkQuestion, models.DO_NOTHING, related_name="vectors", db_index=False)
    revision = models.ForeignKey(Revision, models.DO_NOTHING, related_name="+", db_index=False)
    space = models.ForeignKey("gateway.EmbeddingSpace", models.PROTECT, related_name="+", db_index=False)
    halfvec = HalfVectorField()
    bits = VaryingBitField(null=True)

    class Meta:
        verbose_name = _("vector of a question")
        verbose_name_plural = _("vectors of questions")
        constraints = [models.UniqueConstraint("question", "space", name="question_vector_once")]
        indexes = [models.Index(fields=["revision", "space"], name="question_vector_revision")]

    def __str__(self) -> str:
        return f"{self.question_id}"
