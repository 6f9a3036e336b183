"""What admins do with endpoints and quotas: check, then save, with a line in the audit log. Every door calls these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from django.db import IntegrityError, transaction

from portal.gateway import addresses, admission, quotas
from portal.gateway.embedding import identity_of
from portal.gateway.models import EndpointFallback, ModelEndpoint, Quota
from portal.gateway.providers import PROVIDERS, checked_parameters, provider_of
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import Membership
from portal.kernel.principal import Principal
from portal.kernel.secrets import require_usable
from portal.kernel.secrets.revealing import ENVIRONMENT, SEALED

# How many places hold vectors that an endpoint's model made. Whoever keeps vectors adds its counter.
VECTOR_HOLDERS: list[Callable[[ModelEndpoint], int]] = []


def save_endpoint(
    principal: Principal | None,
    endpoint: ModelEndpoint,
    *,
    fallbacks: Sequence[ModelEndpoint] | None = None,
    fields: Sequence[str] = (),
) -> ModelEndpoint:
    """Save an endpoint that may be used as it stands; `fallbacks` None leaves them as they are.

    Raises `Invalid`: not_a_reference, provider_mismatch, base_url_missing, parameters_invalid,
    fallback_invalid, and what `require_usable` raises; `Conflict`: name_taken, and model_in_use when vectors
    would be left behind in the space of the model that the endpoint names so far.
    """
    if endpoint.credential and not endpoint.credential.startswith((SEALED, ENVIRONMENT)):
        raise Invalid("A credential is a reference such as env://NAME, never the secret.", code="not_a_reference")
    endpoint.parameters = checked_parameters(endpoint.parameters)
    if endpoint.provider != ModelEndpoint.Provider.LOCAL:
        provider_of(endpoint)
        if PROVIDERS[endpoint.provider].own_url and not endpoint.base_url:
            raise Invalid("Give the base URL of this endpoint.", code="base_url_missing")
        if endpoint.credential:
            # An address on another host needs its secret given again: the old one was for the old host.
            url = addresses.base_url(endpoint)
            require_usable(endpoint.credential, host=url, workspace_id=endpoint.workspace_id)
    for fallback in fallbacks or ():
        foreign = fallback.workspace_id not in {None, endpoint.workspace_id}
        if fallback.pk == endpoint.pk or fallback.kind != endpoint.kind or foreign:
            raise Invalid(
                'The endpoint "%(name)s" can not stand in for this one.', code="fallback_invalid", name=fallback.name
            )
    _refuse_another_space(endpoint)
    try:
        with transaction.atomic():
            if endpoint.is_default:
                others = ModelEndpoint.objects.filter(workspace=endpoint.workspace, kind=endpoint.kind, is_default=True)
                others.exclude(pk=endpoint.pk).update(is_default=False)
            endpoint.save()
            if fallbacks is not None:
                _set_fallbacks(endpoint, fallbacks)
            audit.record(
                principal,
                "endpoint.save",
                endpoint,
                workspace_id=endpoint.workspace_id,
                fields=sorted(fields),
                name=endpoint.name,
            )
    except IntegrityError as error:
        raise Conflict("An endpoint named %(name)s is there already.", code="name_taken", name=endpoint.name) from error
    addresses.forget_secrets()
    admission.close_breaker(endpoint)
    return endpoint


def _refuse_another_space(endpoint: ModelEndpoint) -> None:
    """Vectors of different models can not be compared: whoever has some goes over to another endpoint, step by step."""
    before = ModelEndpoint.objects.filter(pk=endpoint.pk, kind=ModelEndpoint.Kind.EMBEDDING).first()
    if before is None or (endpoint.kind == before.kind and identity_of(endpoint) == identity_of(before)):
        return
    holders = sum(count(before) for count in VECTOR_HOLDERS)
    if holders:
        raise Conflict(
            "%(n)s knowledge bases hold vectors of this model, which another model or address can not search. "
            "Add the other model as an endpoint of its own, and change each base to it under Settings › Models.",
            code="model_in_use",
            n=holders,
        )


def _set_fallbacks(endpoint: ModelEndpoint, fallbacks: Sequence[ModelEndpoint]) -> None:
    EndpointFallback.objects.filter(endpoint=endpoint).delete()
    unique = list(dict.fromkeys(fallbacks))
    EndpointFallback.objects.bulk_create(
        [EndpointFallback(endpoint=endpoint, fallback=row, position=place) for place, row in enumerate(unique)]
    )


def save_quota(principal: Principal | None, quota: Quota) -> Quota:
    """Save a quota whose subject belongs to its workspace.

    Raises `Invalid` (quota_invalid) and `Conflict` (quota_exists).
    """
    subjects = {
        Quota.Subject.WORKSPACE: None,
        Quota.Subject.DEPARTMENT: quota.department,
        Quota.Subject.PERSON: quota.user,
        Quota.Subject.KEY: quota.key,
    }
    chosen = subjects[Quota.Subject(quota.subject)]
    named = [row for row in (quota.department, quota.user, quota.key) if row is not None]
    if named != ([] if quota.subject == Quota.Subject.WORKSPACE else [chosen]):
        raise Invalid("Name exactly the department, person or key that this quota is for.", code="quota_invalid")
    if quota.limit <= 0 or not 1 <= quota.warn_percent <= 100:
        raise Invalid("A limit is above zero, and a warning comes at 1 to 100 percent of it.", code="quota_invalid")
    member = Membership.objects.filter(workspace=quota.workspace, user=quota.user).exists()
    places = {row.workspace_id for row in (quota.department, quota.key) if row is not None}
    if places - {quota.workspace_id} or (quota.user is not None and not member):
        raise Invalid("Name exactly the department, person or key that this quota is for.", code="quota_invalid")
    try:
        with transaction.atomic():
            quota.save()
            audit.record(
                principal,
                "quota.save",
                quota,
                workspace_id=quota.workspace_id,
                limit=str(Decimal(quota.limit)),
                unit=quota.unit,
                period=quota.period,
                enabled=quota.enabled,
            )
    except IntegrityError as error:
        raise Conflict("There is a quota of this kind already; change that one.", code="quota_exists") from error
    quotas.forget_accounts()
    return quota


@transaction.atomic
def delete_quota(principal: Principal | None, quota: Quota) -> None:
    """Lift a limit."""
    audit.record(principal, "quota.delete", quota, workspace_id=quota.workspace_id, limit=str(quota.limit))
    quota.delete()
    transaction.on_commit(quotas.forget_accounts)
