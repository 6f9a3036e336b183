"""Which questions are kept, for whom, and for how long. Nobody else decides.

A question is kept only where workspace, every base that was searched, and its asker allow it. Kept questions are
their asker's history; `listed` ones may also be shown to those who manage the bases, in numbers and without names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from knowledge import base_settings
from knowledge.models import KnowledgeBase, QueryRecord
from portal.kernel.models import User, Workspace
from portal.kernel.principal import Principal


@dataclass(frozen=True, slots=True)
class Keeping:
    """What may become of a question: `kept` in its asker's history, `listed` for those who write the bases."""

    kept: bool
    listed: bool


def keeping(principal: Principal, searched: Iterable[KnowledgeBase]) -> Keeping:
    """What may become of a question that the asker puts to these bases.

    A question that reached several bases, one of them sensitive, is never listed: the others' writers would read
    what was meant for it.
    """
    bases = list(searched)
    wish = User.objects.filter(pk=principal.user_id).values_list("question_log", flat=True).first()
    kept = (
        wish != User.QuestionLog.OFF
        and all(base_settings.read(base.config).searching.log_queries for base in bases)
        and Workspace.objects.filter(pk=principal.workspace_id, log_queries=True).exists()
    )
    mixed = len(bases) > 1 and any(base.sensitive for base in bases)
    return Keeping(kept, kept and wish == User.QuestionLog.LISTED and not mixed)


def sweep() -> int:
    """Forget questions whose time is over: after the workspace's days, or the installation's; returns how many."""
    number, now = 0, timezone.now()
    default: int = settings.ARCHWAY["QUERY_LOG_DAYS"]
    for pk, days in Workspace.objects.values_list("pk", "query_log_days"):
        limit = now - timedelta(days=default if days is None else min(days, default))
        number += QueryRecord.objects.filter(workspace_id=pk, at__lt=limit).delete()[0]
    return number
