"""From an endpoint's credential reference to the secret itself."""

from __future__ import annotations

import os

from django.conf import settings

from portal.kernel.errors import Invalid

_ENVIRONMENT = "env://"


def resolve(reference: str) -> str:
    """The secret a reference names; "" for no reference.

    `env://NAME` works only for names that the operator listed in ARCHWAY_ENV_CREDENTIALS: otherwise
    whoever may edit an endpoint could send any variable of this process to a host of their choice.
    Raises `Invalid` (`credential_unknown`, `credential_not_listed`, `credential_missing`).
    """
    if not reference:
        return ""
    if not reference.startswith(_ENVIRONMENT):
        raise Invalid("The credential must look like env://NAME.", code="credential_unknown")
    name = reference.removeprefix(_ENVIRONMENT)
    if name not in settings.ARCHWAY["ENV_CREDENTIALS"]:
        raise Invalid(
            "The operator has not listed %(name)s in ARCHWAY_ENV_CREDENTIALS.", code="credential_not_listed", name=name
        )
    secret = os.environ.get(name, "")
    if not secret:
        raise Invalid("The variable %(name)s is not set.", code="credential_missing", name=name)
    return secret
