"""Which topics a page over several bases follows, and from which event on."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError

from knowledge.access import visible_bases
from portal.kernel import events
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

# A socket carries at most 50 topics; people with more bases see the rest at the next load.
MOST = 40


def latest(topic: str) -> int | None:
    """The number of a topic's newest event; None when Redis is away (the page then follows from when it connects)."""
    try:
        return events.latest_number(topic)
    except (RedisError, OSError) as error:
        logger.warning("no event number: %s", type(error).__name__)
        return None


def topics_of(principal: Principal) -> list[tuple[str, int | None]]:
    """(topic, number) of the asker's bases, the ones that changed last first. Call it before reading rows."""
    uids = visible_bases(principal).order_by("-stamp", "-pk").values_list("uid", flat=True)[:MOST]
    return [(f"base:{uid}", latest(f"base:{uid}")) for uid in uids]
