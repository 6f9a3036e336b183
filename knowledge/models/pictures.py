"""Where pictures stand in a revision's text, and what text recognition read on its pages."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.documents import Revision, StoredImage


class PicturePlace(models.Model):
    """A stretch of a revision's text that belongs to a picture: the picture itself, its caption, the text on it.

    `start` and `end` are offsets as those of chunks, so a passage shows the pictures whose places it
    touches. Without `image` the stretch is text that was read from a whole page.
    """

    revision = models.ForeignKey(Revision, models.CASCADE, related_name="picture_places", db_index=False)
    image = models.ForeignKey(StoredImage, models.CASCADE, null=True, related_name="places")
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    page = models.PositiveIntegerField(null=True)
    recognised = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("place of a picture")
        verbose_name_plural = _("places of pictures")
        constraints = [
            models.CheckConstraint(name="picture_place_order", condition=Q(start__lte=models.F("end"))),
        ]
        indexes = [models.Index(fields=["revision", "start"], name="picture_place")]

    def __str__(self) -> str:
        return f"{self.start}–{self.end}"


class RecognisedText(models.Model):
    """What text recognition found in one place of a file (`p3` or a picture's key), kept for retries and re-indexing.

    `value` is the JSON of `knowledge.ingestion.ocr.lines`, or `{"failed": code}`.
    """

    revision = models.ForeignKey(Revision, models.CASCADE, related_name="recognised")
    place = models.CharField(max_length=64)
    version = models.PositiveSmallIntegerField()
    value = models.JSONField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("recognised text")
        verbose_name_plural = _("recognised texts")
        constraints = [models.UniqueConstraint("revision", "place", "version", name="recognised_once")]

    def __str__(self) -> str:
        return f"{self.revision} {self.place}"
