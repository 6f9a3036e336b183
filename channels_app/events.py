"""The one websocket of the pages: topics are subscribed to, each checked, and checked again when access has moved.

Client frames: {"subscribe": "base:UID", "after": 17} and {"unsubscribe": "base:UID"}. Server frames:
events (see `portal.kernel.events`), {"type": "subscribed", "topic", "seq"}, {"type": "reset", "topic"}
(some events are no longer kept: read the list again), {"type": "denied", "topic"}.
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from redis.exceptions import RedisError

from knowledge.access import visible_bases
from portal.kernel import events, keys
from portal.kernel.errors import ArchwayError, Unauthenticated
from portal.kernel.models import User, Workspace
from portal.kernel.principal import Principal, for_key, for_user
from portal.kernel.sessions import person_of

logger = logging.getLogger(__name__)

MAX_TOPICS = 50
# Sessions, keys and emergency grants end by the clock, which moves no `acl_version`.
SECONDS_A_CHECK_HOLDS = 5.0
_TOPIC = re.compile(r"(base|user):([0-9a-z]{1,40})")


@dataclass(slots=True)
class Subscription:
    """A followed topic: when and at which `acl_version` it was last found to be allowed, and where following began.

    Events up to number `since` were replayed. Later ones may come in another order than their numbers
    (several processes send), and each is passed on.
    """

    acl_version: int
    checked_at: float
    since: int


class EventsConsumer(AsyncJsonWebsocketConsumer):
    """Live hints for one signed-in person or key."""

    async def connect(self) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        try:
            self.secret = self._secret()
            self.principal = await database_sync_to_async(self._principal)()
        except ArchwayError:
            await self.close(4401)
            return
        await self.accept()

    def _secret(self) -> str | None:
        headers = {name.lower(): value.decode("latin-1") for name, value in self.scope["headers"]}
        return keys.secret_from_headers(headers.get(b"authorization", ""), headers.get(b"x-api-key", ""))

    def _principal(self) -> Principal:
        """Who is at the other end now: looked up anew, so that revocation is seen."""
        if self.secret:
            return for_key(keys.authenticate(self.secret))
        fresh = person_of(self.scope["session"].session_key)
        if fresh is None:
            raise Unauthenticated("Sign in, or send an API key.")
        return for_user(fresh, door="web", workspace_uid=self.scope["session"].get("workspace"))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        try:
            content = json.loads(text_data or "")
        except (ValueError, RecursionError):
            return  # it asks for nothing; the topics that are followed stay
        await self.receive_json(content)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if not isinstance(content, dict):
            return
        topic = content.get("subscribe")
        if isinstance(topic, str):
            after = content.get("after")
            await self._subscribe(topic[:100], after if isinstance(after, int) else None)
        topic = content.get("unsubscribe")
        if isinstance(topic, str) and topic in self.subscriptions:
            del self.subscriptions[topic]
            await self.channel_layer.group_discard(events.group_name(topic), self.channel_name)

    async def _subscribe(self, topic: str, after: int | None) -> None:
        version = await database_sync_to_async(self._allowed_at)(topic)
        if version is None or len(self.subscriptions) >= MAX_TOPICS:
            await self.send_json({"type": "denied", "topic": topic})
            return
        await self.channel_layer.group_add(events.group_name(topic), self.channel_name)
        try:
            latest = await database_sync_to_async(events.latest_number)(topic)
            frames = await database_sync_to_async(events.missed)(topic, after) if after is not None else []
        except RedisError as error:
            logger.warning("events of %s can not be replayed: %s", topic.partition(":")[0], type(error).__name__)
            latest, frames = 0, None
        self.subscriptions[topic] = Subscription(version, time.monotonic(), latest)
        await self.send_json({"type": "subscribed", "topic": topic, "seq": latest})
        if frames is None:
            await self.send_json({"type": "reset", "topic": topic})
        for frame in frames or []:
            await self.send_json(frame)

    def _allowed_at(self, topic: str) -> int | None:
        """The workspace's `acl_version` when the topic may be followed now, otherwise None."""
        named = _TOPIC.fullmatch(topic)
        if named is None:
            return None
        try:
            principal = self.principal = self._principal()
        except ArchwayError:
            return None
        version = Workspace.objects.values_list("acl_version", flat=True).get(pk=principal.workspace_id)
        kind, uid = named.groups()
        if kind == "base":
            allowed = visible_bases(principal).filter(uid=uid).exists()
        else:
            allowed = User.objects.filter(pk=principal.user_id, uid=uid).exists()
        return version if allowed else None

    def _version_moved(self, subscription: Subscription) -> bool:
        row = Workspace.objects.filter(pk=self.principal.workspace_id).values_list("acl_version", flat=True).first()
        return row != subscription.acl_version

    async def event(self, message: dict[str, Any]) -> None:
        """A frame from the channel layer: sent on only while its topic may be followed."""
        frame = message["frame"]
        topic = frame["topic"]
        subscription = self.subscriptions.get(topic)
        if subscription is None or frame["seq"] <= subscription.since:
            return
        old = time.monotonic() - subscription.checked_at > SECONDS_A_CHECK_HOLDS
        if old or await database_sync_to_async(self._version_moved)(subscription):
            version = await database_sync_to_async(self._allowed_at)(topic)
            if version is None:
                del self.subscriptions[topic]
                await self.channel_layer.group_discard(events.group_name(topic), self.channel_name)
                await self.send_json({"type": "denied", "topic": topic})
                return
            subscription.acl_version, subscription.checked_at = version, time.monotonic()
        await self.send_json(frame)
