"""The Celery application. Messages are wake-ups: what to do next stands in the database."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from celery import Celery
from celery.signals import beat_init, celeryd_after_setup, worker_init

app = Celery("archway")


@worker_init.connect  # type: ignore[untyped-decorator]
def _refuse_misconfiguration(**_: object) -> None:
    from portal.checks import refuse_misconfiguration

    refuse_misconfiguration()


@beat_init.connect  # type: ignore[untyped-decorator]
def _make_schedule_folder(**_: object) -> None:
    """Beat keeps its schedule in a folder that it does not make."""
    from django.conf import settings

    Path(settings.CELERY_BEAT_SCHEDULE_FILENAME).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.kernel", "knowledge"])


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _preload(instance: Any, **_: object) -> None:
    """Before the pool forks: what every ingest child would otherwise load for itself."""
    if "ingest" in instance.app.amqp.queues.consume_from:
        from knowledge.ingestion.preload import preload

        preload()
