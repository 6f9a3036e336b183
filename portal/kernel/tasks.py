"""Background work of the kernel."""

from __future__ import annotations

from celery import shared_task

from portal.kernel import audit
from portal.kernel.secrets import watch


@shared_task(name="portal.kernel.tasks.seal_audit", ignore_result=True)
def seal_audit() -> int:
    """Chain the audit rows committed since the last second."""
    return audit.seal_committed()


@shared_task(name="portal.kernel.tasks.watch_credentials", ignore_result=True)
def watch_credentials() -> int:
    """Tell people of unusual and refused reveals, and of credentials that expire."""
    return watch.look()


@shared_task(name="portal.kernel.tasks.check_credentials", ignore_result=True)
def check_credentials() -> None:
    """See whether every credential can still be opened."""
    watch.check_health()
