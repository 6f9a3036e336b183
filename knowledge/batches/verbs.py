"""What can be done to many documents: one row a verb, with what it checks beforehand, does, and how it is undone.

`act` gets a fresh row of a base that the asker may edit right now and returns what an undo needs, or None when
there was nothing to change. Errors of the family become the document's outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from django.utils.translation import gettext_lazy

from knowledge import documents, intake, lifecycle, moving
from knowledge import tags as vocabulary
from knowledge.access import access_base
from knowledge.base_settings import with_splitting
from knowledge.models import Document, KnowledgeBase, Revision, Role
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import User
from portal.kernel.principal import Principal

Params = dict[str, Any]
Before = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A row of the table. `binned`: it takes documents of the recycle bin; `undone_binned`: its undo does."""

    label: Any
    act: Callable[[Principal, Document, Params], Before | None]
    check: Callable[[Principal, KnowledgeBase, Params], Params] = field(default=lambda principal, base, params: {})
    undo: Callable[[Principal, Document, Before], bool] | None = None
    binned: bool = False
    undone_binned: bool = False


def _newest(document: Document) -> Revision:
    row = document.revisions.order_by("-number").first()
    if row is None:
        raise Conflict("This document has no file.", code="no_file")
    return row


# -- the work on it ---------------------------------------------------------------------------------


def _retry(principal: Principal, document: Document, params: Params) -> Before:
    lifecycle.retry(principal, _newest(document))
    return {}


def _cancel(principal: Principal, document: Document, params: Params) -> Before:
    lifecycle.cancel(principal, _newest(document))
    return {}


def _check_edits(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    """Documents with changes made by hand are refused one by one, unless these may be lost."""
    return {"discard_edits": params.get("discard_edits") is True}


def _reindex(principal: Principal, document: Document, params: Params) -> Before:
    lifecycle.reindex(principal, document, discard_edits=params["discard_edits"])
    return {}


def _check_splitting(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    """None: as the base splits today. Otherwise the settings to change; the rest is the base's."""
    chosen = params.get("splitting")
    if chosen is not None:
        if not isinstance(chosen, dict):
            raise Invalid("%(field)s: %(problem)s", code="settings_invalid", field="splitting", problem="object")
        with_splitting(base.config, chosen)
    return {"splitting": chosen, **_check_edits(principal, base, params)}


def _resplit(principal: Principal, document: Document, params: Params) -> Before:
    """A new revision; the kept parse is used again, so only splitting and new chunks' vectors are made."""
    chosen, discard = params["splitting"], params["discard_edits"]
    lifecycle.reindex(principal, document, splitting=chosen, as_base=chosen is None, discard_edits=discard)
    return {}


# -- whether it is found, and where it is -----------------------------------------------------------


def _switch(enabled: bool) -> Callable[[Principal, Document, Params], Before | None]:
    def act(principal: Principal, document: Document, params: Params) -> Before | None:
        if document.enabled == enabled:
            return None
        documents.set_enabled(principal, document, enabled)
        return {}

    return act


def _switch_back(enabled: bool) -> Callable[[Principal, Document, Before], bool]:
    def undo(principal: Principal, document: Document, before: Before) -> bool:
        changed = document.enabled == enabled
        documents.set_enabled(principal, document, not enabled)
        return changed

    return undo


def _delete(principal: Principal, document: Document, params: Params) -> Before:
    documents.delete(principal, document)
    return {}


def _restore(principal: Principal, document: Document, params: Params) -> Before:
    documents.restore(principal, document)
    return {}


def _purge(principal: Principal, document: Document, params: Params) -> Before:
    documents.purge(principal, document)
    return {}


def _bring_back(principal: Principal, document: Document, before: Before) -> bool:
    documents.restore(principal, document)
    return True


def _throw_away(principal: Principal, document: Document, before: Before) -> bool:
    documents.delete(principal, document)
    return True


def _check_target(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    target = access_base(principal, str(params.get("base", "")), Role.EDITOR)
    if target.pk == base.pk:
        raise Invalid("Choose another base than this one.", code="same_base")
    taken = params.get("name_taken", "refuse")
    return {
        "base": target.uid,
        "base_name": target.name,
        "name_taken": "keep_both" if taken == "keep_both" else "refuse",
    }


def _move(principal: Principal, document: Document, params: Params) -> Before:
    target = access_base(principal, params["base"], Role.EDITOR)
    before = {"base": document.base.uid, "folder": document.folder, "name": document.name}
    moving.move(principal, document, target, name_taken=params["name_taken"])
    return before


def _move_back(principal: Principal, document: Document, before: Before) -> bool:
    home = access_base(principal, before["base"], Role.EDITOR)
    if document.base_id == home.pk:
        return False
    moving.move(principal, document, home)
    return True


# -- what is said about it --------------------------------------------------------------------------


def _check_folder(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    return {"folder": intake.clean_path(f"{params.get('folder', '')}/x")[0]}


def _file(principal: Principal, document: Document, params: Params) -> Before | None:
    before = document.folder
    if before == params["folder"]:
        return None
    documents.describe(principal, document, folder=params["folder"])
    return {"folder": before}


def _file_back(principal: Principal, document: Document, before: Before) -> bool:
    documents.describe(principal, document, folder=before["folder"])
    return True


def _check_tags(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    names = vocabulary.clean_many(map(str, params.get("tags") or []))
    if not names:
        raise Invalid("Write the tag first.", code="tag_missing")
    return {"tags": vocabulary.spelt(base.pk, names)}


def _tag(principal: Principal, document: Document, params: Params) -> Before | None:
    has = {vocabulary.folded(name) for name in document.tags}
    added = [name for name in params["tags"] if vocabulary.folded(name) not in has]
    if not added:
        return None
    documents.describe(principal, document, tags=[*document.tags, *added])
    return {"added": added}


def _untag(principal: Principal, document: Document, params: Params) -> Before | None:
    unwanted = {vocabulary.folded(name) for name in params["tags"]}
    removed = [name for name in document.tags if vocabulary.folded(name) in unwanted]
    if not removed:
        return None
    documents.describe(principal, document, tags=[name for name in document.tags if name not in removed])
    return {"removed": removed}


def _tags_back(principal: Principal, document: Document, before: Before) -> bool:
    """Only what the batch changed: tags that somebody gave or took meanwhile stay as they are."""
    added = {vocabulary.folded(name) for name in before.get("added", [])}
    kept = [name for name in document.tags if vocabulary.folded(name) not in added]
    tags = vocabulary.clean_many([*kept, *before.get("removed", [])])
    if tags == document.tags:
        return False
    documents.describe(principal, document, tags=tags)
    return True


def _check_date(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    raw = params.get("date") or ""
    try:
        return {"date": date.fromisoformat(raw).isoformat() if raw else ""}
    except (TypeError, ValueError):
        raise Invalid("Write the date as year-month-day, like 2027-03-31.", code="date_invalid") from None


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None


def _schedule(principal: Principal, document: Document, params: Params) -> Before | None:
    wanted, before = _day(params["date"]), document.review_date
    if wanted == before:
        return None
    documents.describe(principal, document, review_date=wanted, clear_review_date=wanted is None)
    return {"date": before.isoformat() if before else ""}


def _schedule_back(principal: Principal, document: Document, before: Before) -> bool:
    return _schedule(principal, document, before) is not None


def _check_owner(principal: Principal, base: KnowledgeBase, params: Params) -> Params:
    uid = str(params.get("owner") or "")
    if not uid:
        return {"owner": "", "owner_name": ""}
    chosen = person(principal, uid)
    documents.responsible(Document(base=base), chosen)
    return {"owner": uid, "owner_name": str(chosen)}


def person(principal: Principal, uid: str) -> User:
    """Somebody of the workspace. Raises `Invalid` (owner_unknown)."""
    found = User.objects.filter(uid=uid, memberships__workspace_id=principal.workspace_id).first()
    if found is None:
        raise Invalid("There is no such person in the workspace.", code="owner_unknown")
    return found


def _assign(principal: Principal, document: Document, params: Params) -> Before | None:
    chosen = person(principal, params["owner"]) if params["owner"] else None
    before = document.owner
    if before == chosen:
        return None
    documents.describe(principal, document, owner=chosen, clear_owner=chosen is None)
    return {"owner": before.uid if before else ""}


def _assign_back(principal: Principal, document: Document, before: Before) -> bool:
    return _assign(principal, document, before) is not None


VERBS: dict[str, Verb] = {
    "reindex": Verb(gettext_lazy("Re-index"), _reindex, _check_edits),
    "resplit": Verb(gettext_lazy("Re-split"), _resplit, _check_splitting),
    "retry": Verb(gettext_lazy("Retry"), _retry),
    "cancel": Verb(gettext_lazy("Cancel the work"), _cancel),
    "enable": Verb(gettext_lazy("Enable"), _switch(True), undo=_switch_back(True)),
    "disable": Verb(gettext_lazy("Disable"), _switch(False), undo=_switch_back(False)),
    "delete": Verb(
        gettext_lazy("Delete"), _delete, undo=_bring_back, undone_binned=True
    ),
    "restore": Verb(gettext_lazy("Restore"), _restore, undo=_throw_away, binned=True),
    "purge": Verb(gettext_lazy("Delete for good"), _purge, binned=True),
    "move": Verb(
        gettext_lazy("Move to another base"), _move, _check_target, _move_back
    ),
    "folder": Verb(
        gettext_lazy("Move to a folder"), _file, _check_folder, _file_back
    ),
    "tag": Verb(gettext_lazy("Add tags"), _tag, _check_tags, _tags_back),
    "untag": Verb(gettext_lazy("Remove tags"), _untag, _check_tags, _tags_back),
    "review": Verb(
        gettext_lazy("Set a review date"), _schedule, _check_date, _schedule_back
    ),
    "owner": Verb(
        gettext_lazy("Set who is responsible"), _assign, _check_owner,
        _assign_back,
    ),
}  # fmt: skip


def find(name: str) -> Verb:
    """The verb's row. Raises `Invalid` (verb_unknown)."""
    if name not in VERBS:
        raise Invalid("Choose what to do with the documents.", code="verb_unknown")
    return VERBS[name]
