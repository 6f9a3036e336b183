"""The account book: a record per call of a model, its sums by day, and the quotas that limit them."""

from __future__ import annotations

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal.kernel.models import ApiKey, Department, PublicId, User, Workspace


class Spent(models.Model):
    """What was used: tokens, and money in the installation's currency."""

    tokens_in = models.PositiveBigIntegerField(_("tokens in"), default=0)
    tokens_out = models.PositiveBigIntegerField(_("tokens out"), default=0)
    # Of the tokens in, those that the provider had in its cache.
    tokens_cached = models.PositiveBigIntegerField(_("tokens cached"), default=0)
    cost = models.DecimalField(_("cost"), max_digits=18, decimal_places=8, default=Decimal(0))

    class Meta:
        abstract = True


class Purpose(models.TextChoices):
    """What calls are for, in people's words. One that is not among them is shown as it is."""

    ASK = "ask", _("Answering")
    REWRITE = "rewrite", _("Understanding a follow-up question")
    SEARCH = "search", _("Searching by meaning")
    RERANK = "rerank", _("Reranking")
    INGEST = "ingest", _("Indexing documents")
    EDIT = "edit", _("Indexing edited passages")
    EMBED = "embed", _("Changing the embedding model")
    QUESTION_VECTORS = "question vectors", _("Indexing questions")
    QUESTIONS = "questions", _("Generating questions")
    CASES = "cases", _("Generating evaluation cases")
    API_CHAT = "api chat", _("Chat through the API")
    API_EMBEDDING = "api embedding", _("Embeddings through the API")
    TEST = "test", _("Testing the connection")
    MEASURE = "measure", _("Measuring an embedding model")


class Attributed(models.Model):
    """For whom and by what. People, keys and endpoints may be deleted; the sums stay."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", verbose_name=_("workspace"))
    user = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("person"))
    department = models.ForeignKey(
        Department, models.SET_NULL, null=True, related_name="+", verbose_name=_("department")
    )
    key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, related_name="+", verbose_name=_("API key"))
    endpoint = models.ForeignKey(
        "gateway.ModelEndpoint", models.SET_NULL, null=True, related_name="+", verbose_name=_("model endpoint")
    )
    kind = models.CharField(_("kind"), max_length=10)
    purpose = models.CharField(_("purpose"), max_length=30, choices=Purpose.choices)

    class Meta:
        abstract = True


class UsageRecord(PublicId, Attributed, Spent):
    """One call, whatever became of it. `attempts` lists the tries that failed: endpoint, code, milliseconds."""

    class Outcome(models.TextChoices):
        OK = "ok", _("answered")
        ERROR = "error", _("failed")
        BROKEN = "broken", _("broke off")
        CANCELLED = "cancelled", _("cancelled")
        REFUSED = "refused", _("refused by a quota")
        LOST = "lost", _("process ended")
        CACHED = "cached", _("answered from the cache")

    at = models.DateTimeField(_("at"), default=timezone.now, db_index=True)
    door = models.CharField(_("door"), max_length=10, blank=True)
    agent = models.CharField(_("agent"), max_length=16, blank=True)
    run = models.CharField(_("run"), max_length=16, blank=True)
    # Public ids of the bases whose text went along.
    bases = ArrayField(models.CharField(max_length=16), default=list, verbose_name=_("bases"))
    model_name = models.CharField(_("model"), max_length=200)
    # Whether the provider did not say how many tokens it took, so that they are our estimate.
    estimated = models.BooleanField(_("estimated"), default=False)
    milliseconds = models.PositiveIntegerField(_("milliseconds"), default=0)
    first_token_ms = models.PositiveIntegerField(_("first token (ms)"), null=True)
    outcome = models.CharField(_("outcome"), max_length=10, choices=Outcome.choices)
    code = models.CharField(_("code"), max_length=60, blank=True)
    attempts = models.JSONField(_("failed attempts"), default=list)

    class Meta:
        verbose_name = _("model call")
        verbose_name_plural = _("model calls")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["workspace", "-at"], name="usage_workspace"),
            models.Index(fields=["run"], name="usage_run", condition=~Q(run="")),
        ]

    def __str__(self) -> str:
        return f"{self.model_name} {self.outcome}"


class UsageDay(Attributed, Spent):
    """The sums of one day (in TIME_ZONE) of what is otherwise equal; kept when the records are gone."""

    day = models.DateField(_("day"), db_index=True)
    calls = models.PositiveBigIntegerField(_("calls"), default=0)
    failures = models.PositiveBigIntegerField(_("failures"), default=0)
    milliseconds = models.PositiveBigIntegerField(_("milliseconds"), default=0)

    class Meta:
        verbose_name = _("usage of a day")
        verbose_name_plural = _("usage by day")
        ordering = ["-day"]
        constraints = [
            models.UniqueConstraint(
                "day",
                "workspace",
                "user",
                "department",
                "key",
                "endpoint",
                "kind",
                "purpose",
                name="usage_day_once",
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.purpose}"


class Quota(PublicId):
    """A limit of tokens or money a day or month. A department's covers the departments below it."""

    class Subject(models.TextChoices):
        WORKSPACE = "workspace", _("Workspace")
        DEPARTMENT = "department", _("Department")
        PERSON = "person", _("Person")
        KEY = "key", _("API key")

    class Unit(models.TextChoices):
        TOKENS = "tokens", _("Tokens")
        MONEY = "money", _("Money")

    class Period(models.TextChoices):
        DAY = "day", _("Day")
        MONTH = "month", _("Month")

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="quotas", verbose_name=_("workspace"))
    subject = models.CharField(_("for"), max_length=10, choices=Subject.choices)
    department = models.ForeignKey(
        Department, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("department")
    )
    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("person"))
    key = models.ForeignKey(ApiKey, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("API key"))
    unit = models.CharField(_("unit"), max_length=6, choices=Unit.choices)
    period = models.CharField(_("period"), max_length=5, choices=Period.choices)
    limit = models.DecimalField(_("limit"), max_digits=18, decimal_places=6)
    warn_percent = models.PositiveSmallIntegerField(_("warn at (percent)"), default=80)
    enabled = models.BooleanField(_("enabled"), default=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        constraints = [
            models.UniqueConstraint(
                "workspace",
                "subject",
                "department",
                "user",
                "key",
                "unit",
                "period",
                name="quota_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=(
                    Q(subject="workspace", department=None, user=None, key=None)
                    | Q(subject="department", department__isnull=False, user=None, key=None)
                    | Q(subject="person", department=None, user__isnull=False, key=None)
                    | Q(subject="key", department=None, user=None, key__isnull=False)
                ),
                name="quota_names_its_subject",
            ),
            models.CheckConstraint(condition=Q(limit__gt=0), name="quota_above_zero"),
        ]

    def __str__(self) -> str:
        return f"{self.get_subject_display()}: {self.limit:f} {self.get_unit_display()} / {self.get_period_display()}"
