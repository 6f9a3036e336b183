"""What people do about the model of a base: start a change, look how far it is, stop it."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from knowledge import background, outside
from knowledge.model_changes import vectors
from knowledge.models import KnowledgeBase, ModelChange
from portal.gateway.endpoints import embedding_endpoint
from portal.gateway.models import ModelEndpoint
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal


def may_leave_house(endpoint: ModelEndpoint) -> bool:
    """Whether texts go to another server with this model."""
    return outside.leaves_house(endpoint)


def start(principal: Principal, base: KnowledgeBase, endpoint_uid: str, *, confirmed: bool = False) -> ModelChange:
    """Begin to change a base's model; searches go on with the old one until all vectors are made.

    The base comes from `access_base(…, OWNER)`. Raises `Invalid` (endpoint_unknown, model_same) and `Conflict`
    (model_change_open; text_leaves_house for a sensitive base whose texts would go to another server, unless
    `confirmed`). A base without documents changes at once.
    """
    endpoint = embedding_endpoint(principal, endpoint_uid)
    try:
        with transaction.atomic():
            row = KnowledgeBase.objects.select_for_update().get(pk=base.pk)
            if endpoint.pk == row.embedding_id:
                raise Invalid("The base has this model already.", code="model_same")
            if row.sensitive and may_leave_house(endpoint) and not confirmed:
                raise Conflict(
                    "This base is sensitive, and its texts would be sent to the server of %(model)s; confirm that.",
                    code="text_leaves_house",
                    model=endpoint.name,
                )
            change = ModelChange.objects.create(
                **background.as_asked_by(principal),
                base=row,
                before_id=row.embedding_id,
                after=endpoint,
                total=vectors.count_of_leaves(row.pk),
            )
            audit.record(
                principal,
                "base.model_change",
                row,
                base_ids=[row.pk],
                before=change.before.name,
                after=endpoint.name,
                chunks=change.total,
            )
            background.wake(change)
    except IntegrityError as error:
        raise Conflict("The model of this base is being changed already.", code="model_change_open") from error
    return change


def current(base: KnowledgeBase) -> ModelChange | None:
    """The change that is under way."""
    return _rows(base).filter(status__in=ModelChange.OPEN).first()


def last(base: KnowledgeBase) -> ModelChange | None:
    """The newest change, ended or not."""
    return _rows(base).first()


def _rows(base: KnowledgeBase) -> QuerySet[ModelChange]:
    return ModelChange.objects.filter(base=base).select_related("before", "after", "created_by", "base").order_by("-pk")


def cancel(principal: Principal, change: ModelChange) -> None:
    """Stop a change: searches never left the old model. Raises `Conflict` (not_cancellable) once it has switched.

    Vectors that were made are dropped by the clean-up; started again before that, the change goes on with them.
    """
    with transaction.atomic():
        row = ModelChange.objects.select_for_update(of=("self",)).get(pk=change.pk)
        if row.switched_at is not None:
            raise Conflict("Searches use the new model already; change back instead.", code="not_cancellable")
        background.cancel(principal, row)
