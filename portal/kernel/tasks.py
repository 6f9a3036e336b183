"""Background work of the kernel."""

from __future__ import annotations

from celery import shared_task

from portal.kernel import audit


@shared_task(name="portal.kernel.tasks.seal_audit", ignore_result=True)
def seal_audit() -> int:
    """Chain the audit rows committed since the last second."""
    return audit.seal_committed()
