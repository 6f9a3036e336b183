"""The Celery application. Messages are wake-ups: what to do next stands in the database."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from celery import Celery

app = Celery("archway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["portal.kernel", "knowledge"])
