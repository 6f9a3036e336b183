"""Background work of the gateway."""

from __future__ import annotations

from celery import shared_task

from portal.gateway import rollup


@shared_task(name="portal.gateway.tasks.roll_up_usage", ignore_result=True)
def roll_up_usage() -> int:
    """Sum up the last days of the account book, and delete what is too old."""
    rollup.forget_old()
    return rollup.roll_up()


@shared_task(name="portal.gateway.tasks.record_lost_calls", ignore_result=True)
def record_lost_calls() -> int:
    """Write down calls whose process was killed."""
    return rollup.record_lost()
