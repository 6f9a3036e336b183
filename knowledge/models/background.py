"""Long work that somebody started and that a worker does piece by piece: batches of documents, exports and imports.

How it is claimed, reported, cancelled and swept is decided in `knowledge/background.py`.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.bases import KnowledgeBase
from knowledge.models.documents import Document
from portal.kernel.models import PublicId, Workspace


class BackgroundWork(PublicId):
    """Who asked for it, where it is and how it ended. A worker's writes ask for `claim_no`, which only grows.

    `heartbeat_at` is empty while nobody works on it. `key_id` is the API key it was asked for with, so that the
    worker has no more rights than the key.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    OPEN = (Status.QUEUED, Status.RUNNING)

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", verbose_name=_("workspace"))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("started by")
    )
    key_id = models.BigIntegerField(null=True, editable=False)
    status = models.CharField(_("state"), max_length=10, choices=Status.choices, default=Status.QUEUED)
    claim_no = models.PositiveIntegerField(default=0, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)
    lost = models.PositiveSmallIntegerField(default=0, editable=False)
    cancel_requested = models.BooleanField(default=False, editable=False)
    done = models.PositiveBigIntegerField(_("done"), default=0, editable=False)
    total = models.PositiveBigIntegerField(_("total"), default=0, editable=False)
    error_code = models.CharField(_("error code"), max_length=40, blank=True, editable=False)
    error_message = models.TextField(blank=True, editable=False)
    error_params = models.JSONField(default=dict, editable=False)
    created_at = models.DateTimeField(_("started"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do."""
        return self.status in self.OPEN

    @property
    def percent(self) -> int:
        """How much is done, 0 to 100."""
        return min(100, int(100 * self.done / self.total)) if self.total else 0


class Batch(BackgroundWork):
    """One verb on many documents of a base. The documents were fixed when it was started (`items`)."""

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="batches", verbose_name=_("base"))
    verb = models.CharField(_("verb"), max_length=20)
    params = models.JSONField(default=dict, blank=True)
    # How the documents were chosen, in the words of the address: {"scope": "all", "filter": "…", "excluded": 3}.
    selection = models.JSONField(default=dict, blank=True)
    undoes = models.OneToOneField("self", models.SET_NULL, null=True, blank=True, related_name="undone_by")

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["base", "-id"], name="batch_of_base"),
            models.Index(fields=["heartbeat_at"], name="batch_open", condition=Q(status__in=["queued", "running"])),
        ]

    def __str__(self) -> str:
        return f"{self.verb} · {self.base}"


class BatchItem(models.Model):
    """What became of one document of a batch. `before` is what an undo needs."""

    class Outcome(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        DONE = "done", _("Done")
        SKIPPED = "skipped", _("Skipped")
        FAILED = "failed", _("Failed")

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="items")
    document = models.ForeignKey(Document, models.SET_NULL, null=True, related_name="+")
    name = models.CharField(_("name"), max_length=400)
    outcome = models.CharField(_("outcome"), max_length=8, choices=Outcome.choices, default=Outcome.WAITING)
    code = models.CharField(_("code"), max_length=40, blank=True)
    message = models.TextField(blank=True)
    params = models.JSONField(default=dict)
    before = models.JSONField(default=dict)

    class Meta:
        verbose_name = _("document of a batch")
        verbose_name_plural = _("documents of batches")
        ordering = ["id"]
        constraints = [models.UniqueConstraint("batch", "document", name="batch_document_once")]
        indexes = [models.Index(fields=["batch", "outcome", "id"], name="batch_item_outcome")]

    def __str__(self) -> str:
        return self.name


class Archive(BackgroundWork):
    """An export of a base into a file that can be fetched for a while, or an import of such a file into a new base."""

    class Kind(models.TextChoices):
        EXPORT = "export", _("Export")
        IMPORT = "import", _("Import")

    kind = models.CharField(_("kind"), max_length=6, choices=Kind.choices)
    # Of an export: the base it is of. Of an import: the base that it makes, hidden until it is complete.
    base = models.ForeignKey(KnowledgeBase, models.CASCADE, null=True, related_name="archives", verbose_name=_("base"))
    options = models.JSONField(default=dict, blank=True)
    # Counts and the content hash.
    summary = models.JSONField(default=dict, blank=True)
    file = models.CharField(max_length=200, blank=True, editable=False)
    file_name = models.CharField(_("file name"), max_length=300, blank=True)
    size = models.PositiveBigIntegerField(_("size"), default=0)
    # Stored files that an import has made: deleted with it when it does not come to its end.
    kept_files = ArrayField(models.CharField(max_length=200), default=list, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, editable=False)

    class Meta:
        verbose_name = _("archive")
        verbose_name_plural = _("exports and imports")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["base", "kind", "-id"], name="archive_of_base"),
            models.Index(fields=["created_by", "kind", "-id"], name="archive_of_person"),
            models.Index(fields=["heartbeat_at"], name="archive_open", condition=Q(status__in=["queued", "running"])),
        ]

    def __str__(self) -> str:
        return self.file_name or f"{self.kind} {self.uid}"
