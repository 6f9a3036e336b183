"""The words of the lifecycle: states and their groups, a worker's claim, why work ends early."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from knowledge.models import Revision
from portal.kernel.errors import ArchwayError

Status = Revision.Status
RUNNING = (Status.PARSING, Status.SEGMENTING, Status.VECTORIZING)
OPEN = (Status.PENDING, *RUNNING)
RETRYABLE = (Status.FAILED, Status.CANCELLED, Status.NO_TEXT)
# What a second attempt may not meet again; every other fault found in parsing is the file's own.
PASSING_FAULTS = ("worker_timeout", "internal_error", "too_slow", "out_of_memory", "parser_crashed", "file_missing")
STEPS = {Status.PENDING: 1, Status.PARSING: 2, Status.SEGMENTING: 3, Status.VECTORIZING: 4, Status.INDEXED: 5}


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's right to write a revision, good while (`revision_id`, `number`) stands in the row."""

    revision_id: int
    number: int
    worker: str


class Cancelled(ArchwayError):
    """Somebody asked for the work to stop; raised inside the worker at its next step."""

    default_code = "cancelled"


class WorkerTimeout(ArchwayError):
    """The worker gave no sign of life for longer than the claim's time to live."""

    default_code = "worker_timeout"
    retryable = True


def wants_another_file(revision: Revision) -> bool:
    """Whether trying again can not help because the file itself is at fault: it must be replaced."""
    if revision.status == Status.NO_TEXT:
        return True
    own = revision.error_stage == Status.PARSING and revision.error_code not in PASSING_FAULTS
    return revision.status == Status.FAILED and own


def stuck_after() -> timedelta:
    """How long without a heartbeat until pages call work stuck."""
    return timedelta(minutes=5)
