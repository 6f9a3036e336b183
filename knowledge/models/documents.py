"""Documents, their revisions, and the history of the work on them."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.bases import KnowledgeBase
from portal.kernel.models import PublicId


class Document(PublicId):
    """A named thing in a base. Its identity is (base, source key); its bytes are those of a revision.

    Searches see it through `active_revision`, `enabled` and `deleted_at`; nothing on chunk rows says so.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="documents", verbose_name=_("base"))
    source_key = models.CharField(max_length=1000, editable=False)
    folder = models.CharField(_("folder"), max_length=800, blank=True)
    name = models.CharField(_("name"), max_length=400)
    active_revision = models.ForeignKey(
        "knowledge.Revision", models.SET_NULL, null=True, related_name="+", editable=False, verbose_name=_("revision")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    tags = ArrayField(models.CharField(max_length=60), default=list, blank=True, verbose_name=_("tags"))
    # Facts by which searches can be narrowed (`knowledge/metadata.py`); those that people set stay when a new
    # version of the file says otherwise.
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    metadata_by_hand = ArrayField(models.CharField(max_length=60), default=list, blank=True, editable=False)
    review_date = models.DateField(_("review date"), null=True, blank=True)
    # Which reminder of this review date was sent: "", "due" or "overdue".
    review_told = models.CharField(max_length=7, blank=True, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("responsible"),
    )
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    class Meta:
        verbose_name = _("document")
        verbose_name_plural = _("documents")
        constraints = [
            models.UniqueConstraint(
                "base", "source_key", name="document_identity", condition=Q(deleted_at__isnull=True)
            )
        ]
        indexes = [
            models.Index(fields=["base", "-updated_at"], name="document_recent"),
            models.Index(fields=["active_revision"], name="document_active"),
            # What searches may find, base by base, read from the index alone.
            models.Index(
                fields=["base"],
                include=["active_revision"],
                name="document_searchable",
                condition=Q(enabled=True, deleted_at__isnull=True, active_revision__isnull=False),
            ),
            GinIndex(fields=["tags"], name="document_tags"),
            GinIndex(fields=["metadata"], name="document_metadata", opclasses=["jsonb_path_ops"]),
            models.Index(fields=["review_date"], name="document_review", condition=Q(review_date__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.name


class Revision(PublicId):
    """One set of bytes of a document, and how far the work on it is. Moves stand in `knowledge/lifecycle.py`."""

    class Status(models.TextChoices):
        PENDING = "pending", _("Queued")
        PARSING = "parsing", _("Parsing")
        SEGMENTING = "segmenting", _("Splitting")
        REVIEW = "review", _("Needs review")
        VECTORIZING = "vectorizing", _("Vectorizing")
        INDEXED = "indexed", _("Searchable")
        NO_TEXT = "no_text", _("No text found")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    document = models.ForeignKey(Document, models.CASCADE, related_name="revisions", verbose_name=_("document"))
    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="+", verbose_name=_("base"))
    number = models.PositiveIntegerField(_("revision"))
    file = models.CharField(max_length=200, editable=False)
    file_name = models.CharField(_("file name"), max_length=400)
    sha256 = models.CharField(max_length=64, editable=False)
    mime = models.CharField(_("type"), max_length=120)
    size = models.BigIntegerField(_("size"))
    config = models.JSONField(default=dict, editable=False)
    # The splitting in `config` was chosen for this document: a re-index keeps it, whatever the base says by then.
    own_splitting = models.BooleanField(default=False, editable=False)
    # Changes made by hand in a review, while it is split anew (`knowledge/chunks/carrying.py`).
    handwork = models.JSONField(default=dict, editable=False)
    status = models.CharField(_("state"), max_length=12, choices=Status.choices, default=Status.PENDING)
    # Where a claimed revision goes on: "parse" (parse and split) or "embed" (embed and store).
    stage = models.CharField(max_length=8, default="parse", editable=False)
    claim_no = models.PositiveBigIntegerField(default=0, editable=False)
    # Empty: free to be claimed (when the state is open). A slice that ends early leaves the state as it is.
    claimed_by = models.CharField(max_length=100, blank=True, editable=False)
    served_at = models.DateTimeField(null=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0, editable=False)
    # Attempts made before a person last queued it: the number of an attempt only grows, the three tries start anew.
    attempts_before = models.PositiveSmallIntegerField(default=0, editable=False)
    not_before = models.DateTimeField(null=True, editable=False)
    queued_at = models.DateTimeField(_("queued"), auto_now_add=True)
    started_at = models.DateTimeField(_("started"), null=True, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)
    cancel_requested = models.BooleanField(default=False, editable=False)
    done = models.PositiveIntegerField(default=0, editable=False)
    total = models.PositiveIntegerField(null=True, editable=False)
    unit = models.CharField(max_length=10, blank=True, editable=False)
    error_stage = models.CharField(max_length=12, blank=True, editable=False)
    error_code = models.CharField(_("error code"), max_length=40, blank=True, editable=False)
    # The English message id and what fills its placeholders; shown in the reader's language.
    error_message = models.TextField(blank=True, editable=False)
    error_params = models.JSONField(default=dict, editable=False)
    warnings = ArrayField(models.TextField(), default=list, editable=False)
    page_count = models.PositiveIntegerField(null=True, editable=False)
    # The facts that the file or the web page states about itself.
    metadata = models.JSONField(default=dict, editable=False)
    chunk_count = models.PositiveIntegerField(_("chunks"), default=0, editable=False)
    token_count = models.PositiveBigIntegerField(default=0, editable=False)
    # Vectors of revisions that were left long ago are cleaned up; going back to such a one means re-indexing.
    vectors_kept = models.BooleanField(default=True, editable=False)
    # Names of kept outputs: the text that offsets point into, and the same as the parser gave it.
    parsed_key = models.CharField(max_length=64, blank=True, editable=False)
    raw_key = models.CharField(max_length=64, blank=True, editable=False)
    space = models.ForeignKey("gateway.EmbeddingSpace", models.PROTECT, null=True, related_name="+", editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    RUNNING = (Status.PARSING, Status.SEGMENTING, Status.VECTORIZING)
    OPEN = (Status.PENDING, *RUNNING)

    @property
    def tries(self) -> int:
        """Attempts since a person last queued it."""
        return self.attempts - self.attempts_before

    class Meta:
        verbose_name = _("revision")
        verbose_name_plural = _("revisions")
        constraints = [
            models.UniqueConstraint("document", "number", name="revision_number"),
            # Two workers, or two uploads, never work on one document at once.
            models.UniqueConstraint(
                "document",
                name="revision_one_open",
                condition=Q(status__in=["pending", "parsing", "segmenting", "vectorizing", "review"]),
            ),
        ]
        indexes = [
            models.Index(fields=["base", "sha256"], name="revision_bytes"),
            models.Index(
                fields=["queued_at"],
                name="revision_claimable",
                condition=Q(claimed_by="", status__in=["pending", "parsing", "segmenting", "vectorizing"]),
            ),
            models.Index(
                fields=["heartbeat_at"],
                name="revision_running",
                condition=Q(status__in=["parsing", "segmenting", "vectorizing"]),
            ),
            models.Index(fields=["base", "-queued_at"], name="revision_history"),
            models.Index(fields=["created_by", "-served_at"], name="revision_served"),
            models.Index(F("status"), F("finished_at").desc(), name="revision_finished"),
        ]

    def __str__(self) -> str:
        return f"{self.document} v{self.number}"


class Attempt(models.Model):
    """One claim of a revision by a worker: who did what, when, how long, and how it ended."""

    class Outcome(models.TextChoices):
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        YIELDED = "yielded", _("Waiting for its next turn")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")
        LOST = "lost", _("Worker lost")

    revision = models.ForeignKey(Revision, models.CASCADE, related_name="history")
    number = models.PositiveSmallIntegerField()
    worker = models.CharField(max_length=100)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    slices = models.PositiveIntegerField(default=1)
    # Seconds spent per stage: {"parsing": 0.4, "segmenting": 0.1, "vectorizing": 12.0}
    seconds = models.JSONField(default=dict)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.RUNNING)
    code = models.CharField(max_length=40, blank=True)
    message = models.TextField(blank=True)
    params = models.JSONField(default=dict)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("task history")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.revision} #{self.number}"


class StoredImage(PublicId):
    """A picture inside a revision, served only through the permission-checked address of its document.

    Its bytes are stored once in a base (`knowledge/images/keeping.py`). `width` and `height` are pixels,
    `size` bytes; 0 when not known. Without `thumbnail` the picture itself is small enough.
    """

    revision = models.ForeignKey(Revision, models.CASCADE, related_name="images")
    key = models.CharField(max_length=64)
    file = models.CharField(max_length=200)
    mime = models.CharField(max_length=60)
    alt = models.TextField(blank=True)
    thumbnail = models.CharField(max_length=200, blank=True)
    width = models.PositiveIntegerField(default=0)
    height = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("image")
        verbose_name_plural = _("images")
        constraints = [models.UniqueConstraint("revision", "key", name="image_once")]

    def __str__(self) -> str:
        return self.alt or self.key
