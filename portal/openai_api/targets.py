"""What may be asked for as a model: names, lists, and who stands behind a name. Nobody else reads a model's name.

A name is `kind-words-uid`. The words are for people and follow renamings; the uid decides, so a name keeps its
meaning. Of several bases: `bases-uid+uid`; of all that the asker sees: `bases`. Chat and embedding models also
answer to the names that an admin gave them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.text import slugify

from knowledge.access import visible_bases
from knowledge.models import KnowledgeBase
from portal.gateway.endpoints import chat_endpoint, visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import NotFound
from portal.kernel.principal import Principal

ALL_BASES = "bases"
MOST_BASES = 50
_UID = r"[a-z0-9]{16}"
_NAME = re.compile(rf"^(?P<kind>base|chat|embedding)-(?:.*-)?(?P<uid>{_UID})$", re.DOTALL)
_SET = re.compile(rf"^bases-(?P<uids>{_UID}(?:\+{_UID})*)$")
_WORDS = 60
Kind = ModelEndpoint.Kind


@dataclass(frozen=True, slots=True)
class Bases:
    """Knowledge that answers: `uids` empty means every base that the asker sees."""

    name: str
    uids: tuple[str, ...]
    created: datetime | None = None
    title: str = ""

    kind = "base"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model of the gateway."""

    name: str
    row: ModelEndpoint

    kind = "model"


Target = Bases | Endpoint


def listed(principal: Principal) -> list[Target]:
    """Everything that the asker may name: bases first, then chat and embedding models, defaults first."""
    bases = list(visible_bases(principal).order_by("name", "pk"))
    found: list[Target] = [Bases(ALL_BASES, ())] if bases else []
    found += [_of_base(base) for base in bases]
    if principal.has("chat"):
        for kind in (Kind.CHAT, Kind.EMBEDDING):
            found += [_of_endpoint(row) for row in visible_endpoints(principal, kind)]
    return found


def chat_target(principal: Principal, name: str) -> Target:
    """Who answers questions under this name. `NotFound` (no_such_model) when there is nobody, or nobody visible."""
    return _first(name, (lambda: _bases(principal, name), lambda: _endpoint(principal, Kind.CHAT, name)))


def embedding_target(principal: Principal, name: str) -> Endpoint:
    """The embedding model of this name. Raises as `chat_target`."""
    found = _endpoint(principal, Kind.EMBEDDING, name)
    if found is None:
        raise _unknown(name)
    return found


def any_target(principal: Principal, name: str) -> Target:
    """What stands behind a name of any kind. Raises as `chat_target`."""
    lookups: list[Callable[[], Target | None]] = [lambda: _bases(principal, name)]
    if principal.has("chat"):
        lookups += [
            lambda: _endpoint(principal, Kind.CHAT, name),
            lambda: _endpoint(principal, Kind.EMBEDDING, name),
        ]
    return _first(name, lookups)


def as_json(target: Target) -> dict[str, Any]:
    """OpenAI's `model` object; `kind` and `title` are ours."""
    if isinstance(target, Endpoint):
        row = target.row
        created, owner, title, kind = _seconds(row.created_at), row.provider, row.name, row.kind
    else:
        created, owner, title, kind = _seconds(target.created), "archway", target.title, target.kind
    return {
        "id": target.name,
        "object": "model",
        "created": created,
        "owned_by": owner,
        "kind": kind,
        "title": title,
    }


def _seconds(at: datetime | None) -> int:
    return int(at.timestamp()) if at else 0


def _first(name: str, lookups: Iterable[Callable[[], Target | None]]) -> Target:
    for look in lookups:
        if (found := look()) is not None:
            return found
    raise _unknown(name)


def _unknown(name: str) -> NotFound:
    return NotFound(
        'The model "%(model)s" does not exist, or you don\'t have access to it.',
        code="no_such_model",
        model=name[:200],
    )


def _bases(principal: Principal, name: str) -> Bases | None:
    rows = visible_bases(principal)
    if name == ALL_BASES:
        return Bases(ALL_BASES, ()) if rows.exists() else None
    if one := _NAME.match(name):
        base = rows.filter(uid=one["uid"]).first() if one["kind"] == "base" else None
        return _of_base(base) if base else None
    if several := _SET.match(name):
        uids = tuple(dict.fromkeys(several["uids"].split("+")))
        # One that is hidden hides the set: else an answer would tell which.
        if len(uids) <= MOST_BASES and rows.filter(uid__in=uids).count() == len(uids):
            return Bases(f"bases-{'+'.join(uids)}", uids)
    return None


def _endpoint(principal: Principal, kind: ModelEndpoint.Kind, name: str) -> Endpoint | None:
    rows = visible_endpoints(principal, kind)
    match = _NAME.match(name)
    if match and match["kind"] == kind:
        row = rows.filter(uid=match["uid"]).first()
    else:
        # A name given twice means the default, or the workspace's own: the order of the list.
        row = rows.filter(name=name).first() or rows.filter(model_name=name).first()
    if row is None:
        return None
    # Loaded again with what the gateway wants to know of a chat model beforehand.
    return _of_endpoint(chat_endpoint(principal, row.uid) if kind == Kind.CHAT else row)


def _of_base(base: KnowledgeBase) -> Bases:
    return Bases(_name("base", base.name, base.uid), (base.uid,), base.created_at, base.name)


def _of_endpoint(row: ModelEndpoint) -> Endpoint:
    return Endpoint(_name(row.kind, row.name, row.uid), row)


def _name(kind: str, words: str, uid: str) -> str:
    slug = slugify(words, allow_unicode=True)[:_WORDS].strip("-")
    return "-".join(part for part in (kind, slug, uid) if part)
