"""Where a revision is and how it moves: claims, attempts, progress, failures, stale workers. Nobody else moves it.

Every move is a compare-and-set on (state, `claim_no`), and `claim_no` only grows: a worker that lost
its claim can write nothing. Verbs of people take a principal and a row that `knowledge/access.py`
handed out (`verbs`); moves of workers take a `Claim` (`work`); `sweeping` ends what workers left.
"""

from knowledge.lifecycle.announcing import announce, wake
from knowledge.lifecycle.states import (
    OPEN,
    RETRYABLE,
    RUNNING,
    STEPS,
    Cancelled,
    Claim,
    Status,
    WorkerTimeout,
    stuck_after,
    wants_another_file,
)
from knowledge.lifecycle.sweeping import somebody_waits, sweep
from knowledge.lifecycle.verbs import activate, add_revision, cancel, confirm, reindex, resplit, retry, waits_for_review
from knowledge.lifecycle.work import (
    advance,
    claim,
    fail,
    finish,
    lock,
    note_seconds,
    progress,
    publish,
    set_aside,
    stop,
    touch,
)

__all__ = [
    "OPEN", "RETRYABLE", "RUNNING", "STEPS", "Cancelled", "Claim", "Status", "WorkerTimeout", "activate",
    "add_revision", "advance", "announce", "cancel", "claim", "confirm", "fail", "finish", "lock", "note_seconds",
    "progress", "publish", "reindex", "resplit", "retry", "set_aside", "somebody_waits", "stop", "stuck_after",
    "sweep", "touch", "waits_for_review", "wake",
    "wants_another_file",
]  # fmt: skip
