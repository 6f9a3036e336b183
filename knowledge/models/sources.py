"""Where documents come from besides single files: uploads that can be resumed, and pages of the web that are kept."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.background import Archive
from knowledge.models.bases import KnowledgeBase
from knowledge.models.documents import Document
from portal.kernel.models import PublicId, Workspace


class Upload(PublicId):
    """One file on its way in pieces. Its bytes lie in parts until the last one has come; `knowledge/resumable.py`."""

    class State(models.TextChoices):
        OPEN = "open", _("Under way")
        DONE = "done", _("Done")
        REFUSED = "refused", _("Refused")

    # Empty: the file of an export, of which a new base of the workspace is made.
    base = models.ForeignKey(KnowledgeBase, models.CASCADE, null=True, related_name="+", verbose_name=_("base"))
    workspace = models.ForeignKey(Workspace, models.CASCADE, null=True, related_name="+", verbose_name=_("workspace"))
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("created by")
    )
    path = models.CharField(_("path"), max_length=1000)
    folder = models.CharField(_("folder"), max_length=800, blank=True)
    same_name = models.CharField(max_length=10, default="revision", editable=False)
    # The document stops after splitting until somebody approves it.
    review = models.BooleanField(default=False, editable=False)
    # A sheet of questions waits here between its preview and its import.
    is_sheet = models.BooleanField(default=False, editable=False)
    # What the client calls the file, so that it finds the upload again: name, size and time of change.
    fingerprint = models.CharField(max_length=300, blank=True, editable=False)
    length = models.BigIntegerField(_("size"))
    offset = models.BigIntegerField(_("received"), default=0)
    # Sizes of the parts that lie in storage, in order; each is named by where it begins.
    parts = ArrayField(models.BigIntegerField(), default=list, editable=False)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.OPEN)
    outcome = models.CharField(max_length=12, blank=True, editable=False)
    document = models.ForeignKey(Document, models.SET_NULL, null=True, related_name="+", verbose_name=_("document"))
    # Of a document: its tags and metadata. Of an archive: how the new base is to be called and embedded, and the
    # import that it became.
    options = models.JSONField(default=dict, editable=False)
    archive = models.ForeignKey(Archive, models.SET_NULL, null=True, related_name="+", verbose_name=_("archive"))
    error_code = models.CharField(_("error code"), max_length=40, blank=True, editable=False)
    error_message = models.TextField(blank=True, editable=False)
    error_params = models.JSONField(default=dict, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"))

    class Meta:
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")
        indexes = [
            models.Index(fields=["created_by", "state"], name="upload_of_person"),
            models.Index(fields=["expires_at"], name="upload_expiry"),
        ]

    def __str__(self) -> str:
        return self.path


class Origin(models.Model):
    """The address of the web that a document was fetched from; outlives its source. Citations lead there too."""

    document = models.OneToOneField(
        Document, models.CASCADE, primary_key=True, related_name="origin", verbose_name=_("document")
    )
    url = models.CharField(_("address"), max_length=2000)

    class Meta:
        verbose_name = _("origin")
        verbose_name_plural = _("origins")

    def __str__(self) -> str:
        return self.url


class Source(PublicId):
    """An address of the web whose pages are documents of a base; `knowledge/sources/` fetches and keeps them."""

    class Kind(models.TextChoices):
        PAGE = "page", _("One page")
        SITEMAP = "sitemap", _("Site map")
        SITE = "site", _("Page and what it links to")

    class Schedule(models.TextChoices):
        OFF = "off", _("Only by hand")
        HOURLY = "hourly", _("Every hour")
        DAILY = "daily", _("Every day")
        WEEKLY = "weekly", _("Every week")

    class Gone(models.TextChoices):
        DISABLE = "disable", _("Disable its document")
        DELETE = "delete", _("Move its document to the recycle bin")
        KEEP = "keep", _("Keep its document")

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="sources", verbose_name=_("base"))
    name = models.CharField(_("name"), max_length=200)
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    url = models.CharField(_("address"), max_length=2000)
    folder = models.CharField(_("folder"), max_length=400, blank=True)
    depth = models.PositiveSmallIntegerField(_("depth"), default=2)
    page_limit = models.PositiveIntegerField(_("page limit"), default=100)
    limit_mb = models.PositiveIntegerField(_("limit in MB"), default=100)
    include = ArrayField(models.CharField(max_length=300), default=list, blank=True, verbose_name=_("only addresses"))
    exclude = ArrayField(models.CharField(max_length=300), default=list, blank=True, verbose_name=_("not addresses"))
    main_only = models.BooleanField(_("main content only"), default=True)
    schedule = models.CharField(_("schedule"), max_length=8, choices=Schedule.choices, default=Schedule.OFF)
    gone = models.CharField(_("when a page is gone"), max_length=8, choices=Gone.choices, default=Gone.DISABLE)
    # What its new documents are given (`knowledge/details.py`).
    tags = ArrayField(models.CharField(max_length=60), default=list, blank=True, verbose_name=_("tags"))
    metadata = models.JSONField(_("metadata"), default=dict, blank=True)
    next_run_at = models.DateTimeField(_("next run"), null=True, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("web source")
        verbose_name_plural = _("web sources")
        indexes = [models.Index(fields=["next_run_at"], name="source_due", condition=Q(next_run_at__isnull=False))]

    def __str__(self) -> str:
        return self.name


class SourceRun(PublicId):
    """One synchronisation of a source. It moves by claims, like the work on a revision."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    class Trigger(models.TextChoices):
        PERSON = "person", _("By hand")
        SCHEDULE = "schedule", _("By schedule")

    OPEN = (Status.QUEUED, Status.RUNNING)

    source = models.ForeignKey(Source, models.CASCADE, related_name="runs", verbose_name=_("web source"))
    number = models.PositiveIntegerField(_("run"))
    trigger = models.CharField(_("started"), max_length=8, choices=Trigger.choices)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("started by")
    )
    status = models.CharField(_("state"), max_length=9, choices=Status.choices, default=Status.QUEUED)
    claim_no = models.PositiveBigIntegerField(default=0, editable=False)
    claimed_by = models.CharField(max_length=100, blank=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)
    not_before = models.DateTimeField(null=True, editable=False)
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    cancel_requested = models.BooleanField(default=False, editable=False)
    # How many pages each came to which end: new, changed, unchanged, gone, failed, skipped.
    counts = models.JSONField(default=dict, editable=False)
    # The first pages that failed or were left out, and why: [{"url", "code", "message", "params"}].
    problems = models.JSONField(default=list, editable=False)
    size = models.BigIntegerField(_("bytes read"), default=0, editable=False)
    error_code = models.CharField(_("error code"), max_length=40, blank=True, editable=False)
    error_message = models.TextField(blank=True, editable=False)
    error_params = models.JSONField(default=dict, editable=False)
    queued_at = models.DateTimeField(_("queued"), auto_now_add=True)
    started_at = models.DateTimeField(_("started"), null=True, editable=False)
    ended_at = models.DateTimeField(_("finished"), null=True, editable=False)

    class Meta:
        verbose_name = _("synchronisation")
        verbose_name_plural = _("synchronisations")
        constraints = [
            models.UniqueConstraint("source", "number", name="source_run_number"),
            models.UniqueConstraint(
                "source", name="source_run_one_open", condition=Q(status__in=["queued", "running"])
            ),
        ]
        indexes = [
            models.Index(fields=["queued_at"], name="source_run_open", condition=Q(status__in=["queued", "running"]))
        ]

    def __str__(self) -> str:
        return f"{self.source} #{self.number}"


class SourcePage(models.Model):
    """One address of a source: the list of what a run has still to visit, and what is remembered of each visit.

    `queued_run` is the run that last wanted it, `visited_run` the run that last finished with it; a run has
    work while there is a page whose `queued_run` is its number and whose `visited_run` is smaller.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        KEPT = "kept", _("Kept")
        GONE = "gone", _("Gone")
        FAILED = "failed", _("Failed")
        SKIPPED = "skipped", _("Left out")

    source = models.ForeignKey(Source, models.CASCADE, related_name="pages", verbose_name=_("web source"))
    url = models.CharField(_("address"), max_length=2000)
    url_key = models.CharField(max_length=64, editable=False)
    depth = models.PositiveSmallIntegerField(default=0, editable=False)
    # A site map lists pages and is none itself.
    is_map = models.BooleanField(default=False, editable=False)
    not_before = models.DateTimeField(null=True, editable=False)
    title = models.CharField(_("title"), max_length=400, blank=True)
    document = models.OneToOneField(
        Document, models.SET_NULL, null=True, related_name="web_page", verbose_name=_("document")
    )
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.WAITING)
    last_outcome = models.CharField(_("last result"), max_length=10, blank=True, editable=False)
    queued_run = models.PositiveIntegerField(default=0, editable=False)
    visited_run = models.PositiveIntegerField(default=0, editable=False)
    tries = models.PositiveSmallIntegerField(default=0, editable=False)
    etag = models.CharField(max_length=300, blank=True, editable=False)
    last_modified = models.CharField(max_length=60, blank=True, editable=False)
    # Of the text that was read, not of the bytes: a new session id in a link is no change.
    content_hash = models.CharField(max_length=64, blank=True, editable=False)
    http_status = models.PositiveSmallIntegerField(null=True, editable=False)
    error_code = models.CharField(_("error code"), max_length=40, blank=True, editable=False)
    error_message = models.TextField(blank=True, editable=False)
    error_params = models.JSONField(default=dict, editable=False)
    fetched_at = models.DateTimeField(_("fetched"), null=True, editable=False)
    changed_at = models.DateTimeField(_("changed"), null=True, editable=False)

    class Meta:
        verbose_name = _("page of a source")
        verbose_name_plural = _("pages of sources")
        constraints = [models.UniqueConstraint("source", "url_key", name="source_page_once")]
        indexes = [models.Index(fields=["source", "queued_run", "visited_run"], name="source_page_waiting")]

    def __str__(self) -> str:
        return self.url
