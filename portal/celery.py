"""The Celery application. Messages are wake-ups: what to do next stands in the database."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from celery import Celery
from celery.signals import beat_init, celeryd_after_setup, worker_init, worker_process_init

app = Celery("archway")
_worker: dict[str, int] = {}


@worker_init.connect  # type: ignore[untyped-decorator]
def _refuse_misconfiguration(**_: object) -> None:
    from portal.checks import refuse_misconfiguration

    refuse_misconfiguration()
    _worker["pid"] = os.getpid()


@beat_init.connect  # type: ignore[untyped-decorator]
def _make_schedule_folder(**_: object) -> None:
    """Beat keeps its schedule in a folder that it does not make."""
    from django.conf import settings

    Path(settings.CELERY_BEAT_SCHEDULE_FILENAME).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.kernel", "portal.gateway", "knowledge"])


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _end_with_parent(**_: object) -> None:
    """A pool process whose worker is killed ends too: waiting for its broker, it could stay for ever."""
    from knowledge.ingestion.confinement.system import die_with_parent

    if sys.platform == "linux":
        die_with_parent(signal.SIGKILL)
        if os.getppid() != _worker["pid"]:
            os._exit(1)  # it was gone before the kernel was told


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _preload(instance: Any, **_: object) -> None:
    """Before the pool forks: what every ingest child would otherwise load for itself."""
    if "ingest" in instance.app.amqp.queues.consume_from:
        from knowledge.ingestion.preload import preload

        preload()
