"""Chunks: passages that people read, leaves that searches match, and the leaves' vectors.

Rows go with their revision by cascades in the database itself (migration 0002): collecting
10,000 chunks in Python to delete them would take longer than indexing them.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from pgvector.django import HalfVectorField

from knowledge.models.documents import Revision
from knowledge.models.fields import VaryingBitField


class Chunk(models.Model):
    """A passage (level "passage") or a piece of one that is searched (level "leaf").

    `start` and `end` are offsets into the revision's parsed text; `prefix` is text repeated from
    elsewhere (a table's header). `words` is the number of tokens in `lexemes` (BM25's document length).
    Which chunks may be found is decided by joining the document, never by a flag of this row except
    `enabled`, which a person sets on single chunks.
    """

    class Level(models.TextChoices):
        PASSAGE = "passage", _("Passage")
        LEAF = "leaf", _("Leaf")
        # A passage that a person removed or merged away: citations still open it, no search looks at this level.
        GONE = "gone", _("Removed")

    revision = models.ForeignKey(Revision, models.DO_NOTHING, related_name="chunks", db_index=False)
    parent = models.ForeignKey("self", models.DO_NOTHING, null=True, related_name="leaves")
    level = models.CharField(max_length=7, choices=Level.choices)
    ordinal = models.PositiveIntegerField()
    text = models.TextField(_("text"))
    prefix = models.TextField(blank=True)
    heading_path = ArrayField(models.TextField(), default=list)
    page = models.PositiveIntegerField(null=True)
    sheet = models.TextField(null=True)
    row_first = models.PositiveIntegerField(null=True)
    row_last = models.PositiveIntegerField(null=True)
    slide = models.PositiveIntegerField(null=True)
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    token_count = models.PositiveIntegerField(default=0)
    sha256 = models.CharField(max_length=64)
    enabled = models.BooleanField(_("enabled"), default=True)
    version = models.PositiveIntegerField(default=1)
    words = models.PositiveIntegerField(default=0)
    lexemes = SearchVectorField(null=True)

    class Meta:
        verbose_name = _("chunk")
        verbose_name_plural = _("chunks")
        ordering = ["revision", "level", "ordinal"]
        # Checked at the end of each statement, so that one statement can move all later passages up or down.
        constraints = [
            models.UniqueConstraint(
                fields=["revision", "level", "ordinal"],
                name="chunk_place",
                deferrable=models.Deferrable.IMMEDIATE,
            )
        ]
        indexes = [GinIndex(fields=["lexemes"], name="chunk_lexemes", fastupdate=True)]

    def __str__(self) -> str:
        return f"{self.level} {self.ordinal}"


class ChunkVersion(models.Model):
    """A passage as it was or is: its text at version `number`, so that a citation of it stays reproducible.

    Rows exist from the first change on: one for what splitting made (`verb` "made", nobody's), one for
    each later state, the current one included. `change` is shared by all that one act changed, and is
    what an undo names. `place` holds what else a restore needs (`knowledge.chunks.history`).
    """

    class Verb(models.TextChoices):
        MADE = "made", _("Made by splitting")
        EDIT = "edit", _("Text edited")
        DISABLE = "disable", _("Excluded from searches")
        ENABLE = "enable", _("Included in searches")
        MERGE = "merge", _("Merged")
        CUT = "cut", _("Split")
        ADD = "add", _("Added by hand")
        DELETE = "delete", _("Removed")
        RESTORE = "restore", _("Earlier version restored")
        UNDO = "undo", _("Change undone")
        CARRY = "carry", _("Carried over from an earlier split")

    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, related_name="versions")
    number = models.PositiveIntegerField(_("version"))
    verb = models.CharField(_("change"), max_length=8, choices=Verb.choices, default=Verb.MADE)
    change = models.CharField(max_length=16, blank=True, db_index=True)
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    enabled = models.BooleanField(_("enabled"), default=True)
    gone = models.BooleanField(_("removed"), default=False)
    place = models.JSONField(default=dict)
    edited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("changed by")
    )
    at = models.DateTimeField(_("at"), default=timezone.now)

    class Meta:
        verbose_name = _("chunk version")
        verbose_name_plural = _("chunk versions")
        constraints = [models.UniqueConstraint("chunk", "number", name="chunk_version_number")]

    def __str__(self) -> str:
        return f"{self.chunk_id} #{self.number}"


class ChunkVector(models.Model):
    """A leaf's vector in one embedding space: `halfvec` exact, `bits` its signs.

    `revision` is repeated from the chunk so that a permitted set can be joined without the chunk table.
    Width is the space's; a partial index per space casts to it.
    """

    chunk = models.ForeignKey(Chunk, models.DO_NOTHING, related_name="vectors", db_index=False)
    revision = models.ForeignKey(Revision, models.DO_NOTHING, related_name="+", db_index=False)
    space = models.ForeignKey("gateway.EmbeddingSpace", models.PROTECT, related_name="+", db_index=False)
    halfvec = HalfVectorField()
    bits = VaryingBitField(null=True)

    class Meta:
        verbose_name = _("vector")
        verbose_name_plural = _("vectors")
        constraints = [models.UniqueConstraint("chunk", "space", name="vector_once")]
        indexes = [models.Index(fields=["revision", "space"], name="vector_revision")]

    def __str__(self) -> str:
        return f"{self.chunk_id}"
