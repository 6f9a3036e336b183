"""Term statistics for BM25, per base.

Each revision appends one row when it is published (and one with the opposite sign when it leaves);
a folder merges rows into `BaseTerm`. A query adds both, so no two writers wait for each other.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from knowledge.models.bases import KnowledgeBase


class RevisionTerms(models.Model):
    """The document frequencies that a revision adds (`sign` +1) or takes away (−1), until folded.

    `lexemes[i]` stands in `counts[i]` of the revision's `chunks` leaves; `words` is the sum of their lengths.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="+", db_index=False)
    revision_id = models.BigIntegerField()
    sign = models.SmallIntegerField()
    chunks = models.IntegerField()
    words = models.BigIntegerField()
    lexemes = ArrayField(models.TextField())
    counts = ArrayField(models.IntegerField())
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("word counts of a revision")
        verbose_name_plural = _("word counts not merged yet")
        indexes = [models.Index(fields=["base", "id"], name="revision_terms_base")]

    def __str__(self) -> str:
        return f"{self.revision_id} {self.sign:+d}"


class BaseTerm(models.Model):
    """How many leaves of a base hold a lexeme. The row of the empty lexeme holds the totals."""

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="+", db_index=False)
    lexeme = models.TextField()
    chunks = models.BigIntegerField()
    words = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = _("word count")
        verbose_name_plural = _("word counts")
        constraints = [models.UniqueConstraint("base", "lexeme", name="base_term")]

    def __str__(self) -> str:
        return self.lexeme
