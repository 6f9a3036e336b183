"""The Celery application. Messages are wake-ups: what to do next stands in the database."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from celery import Celery
from celery.signals import worker_init

app = Celery("archway")


@worker_init.connect  # type: ignore[untyped-decorator]
def _refuse_misconfiguration(**_: object) -> None:
    from portal.checks import refuse_misconfiguration

    refuse_misconfiguration()


app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.kernel", "knowledge"])
