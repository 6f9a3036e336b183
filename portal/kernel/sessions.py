"""Sessions in the database, under ids that Django itself makes: anything else in the cookie is no session."""

from __future__ import annotations

import re

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.utils.crypto import constant_time_compare

from portal.kernel.models import User

_KEY = re.compile(r"[a-z0-9]{32}\Z")


class SessionStore(DatabaseStore):
    """The store of `SESSION_ENGINE`."""

    def _validate_session_key(self, key: str | None) -> bool:
        # Django asks for eight characters only, and cookies may spell any: the database refuses some of them.
        return bool(key and _KEY.match(key))


def person_of(key: str | None) -> User | None:
    """The active person who is signed in by the session `key` now; for doors outside Django's middleware."""
    session = SessionStore(key)
    if session.get(BACKEND_SESSION_KEY) is None:
        return None
    user = User.objects.filter(pk=str(session.get(SESSION_KEY)), is_active=True).first()
    if user is None or not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    return user
