"""A second connection, on which one part of a search runs while the other runs on the caller's own.

Both see the same rules of access: each statement evaluates them itself. Work that must see the caller's transaction
stays in it: within one, nothing runs beside. Nor does it where all helpers are busy, so that many searches at once
take no more than `HELPERS` connections a process, and none of them waits for another
(docs/decisions/0129-words-beside-meaning.md).
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

HELPERS = 2

T = TypeVar("T")


class _Helpers:
    """Threads with a connection each, started when they are first needed."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(HELPERS)
        self._threads: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()
        self._own = threading.local()
        self._opened: list[BaseDatabaseWrapper] = []

    def start(self, work: Callable[[], T]) -> Future[T] | None:
        """`work` on a connection of its own; None when no helper is free."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            with self._starting:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(HELPERS, thread_name_prefix="search")
            context = contextvars.copy_context()
            job = self._threads.submit(context.run, partial(self._connected, _settings(), work))
        except BaseException:
            self._free.release()
            raise
        job.add_done_callback(lambda _: self._free.release())
        return job

    def close(self) -> None:
        """End the threads and their connections; the next search starts anew."""
        with self._starting:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=True)
        while self._opened:
            self._opened.pop().close()

    def _connected(self, settings: dict[str, Any], work: Callable[[], T]) -> T:
        own: BaseDatabaseWrapper | None = getattr(self._own, "connection", None)
        if own is None or own.settings_dict != settings:
            if own is not None:
                own.close()
                self._opened.remove(own)
            own = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, DEFAULT_DB_ALIAS)
            own.inc_thread_sharing()  # whoever closes the helpers closes it
            connections[DEFAULT_DB_ALIAS] = self._own.connection = own
            self._opened.append(own)
        own.close_if_unusable_or_obsolete()
        return work()


def _settings() -> dict[str, Any]:
    """Those of the caller's connection; a helper keeps its connection and takes none from the requests' pool."""
    settings = deepcopy(connection.settings_dict)
    settings["OPTIONS"].pop("pool", None)
    settings["CONN_MAX_AGE"] = 60
    return settings


_helpers = _Helpers()


def close() -> None:
    """Give the second connections back, as before the database is dropped."""
    _helpers.close()


def _forget() -> None:
    global _helpers
    _helpers = _Helpers()


# Threads do not live on in a forked process, and a connection is not to be shared with it.
os.register_at_fork(after_in_child=_forget)


def start(work: Callable[[], T]) -> Callable[[], T]:
    """Begin `work` beside what the caller does next; calling what is returned waits for its result.

    Where nothing may or can run beside, `work` is done when its result is asked for, on the caller's connection.
    """
    if connection.in_atomic_block or not connection.get_autocommit():
        return work
    job = _helpers.start(work)
    if job is None:
        return work

    def result() -> T:
        try:
            return job.result()
        except (OperationalError, InterfaceError):  # no second connection is to be had
            return work()

    return result
