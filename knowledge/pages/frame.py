"""What every page of a base shares: its name and tabs, what the asker may do, and a document of exactly this base."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext

from knowledge.access import access_base, access_document
from knowledge.models import Document, KnowledgeBase, Revision, Role
from portal.kernel.errors import ArchwayError, NotFound
from portal.kernel.principal import Principal

PROBLEMS = "document_problems"
UNDO = "document_undo"


def base_frame(base: KnowledgeBase, tab: str) -> dict[str, Any]:
    """Context of `knowledge/base_page.html`; `base` comes from `access_base`, which knows the asker's role."""
    role = base.my_role  # type: ignore[attr-defined]
    return {
        "base": base,
        "tab": tab,
        "can_edit": role in (Role.EDITOR, Role.OWNER),
        "can_manage": role == Role.OWNER,
    }


def open_document(
    principal: Principal, base_uid: str, uid: str, at_least: Role = Role.VIEWER
) -> tuple[KnowledgeBase, Document]:
    """The base and a document that lies in it. `NotFound` also when it lies in another base."""
    base = access_base(principal, base_uid)
    document = access_document(principal, uid)
    if document.base_id != base.pk:
        raise NotFound("Not found, or you don't have access.")
    if at_least != Role.VIEWER:
        base = access_base(principal, base_uid, at_least)
    return base, document


def open_revision(document: Document, number: int | str) -> Revision:
    """One revision of an open document by its number."""
    # A number that no integer column holds names nothing.
    if not str(number).isdecimal() or len(str(number)) > 9:
        raise NotFound("Not found, or you don't have access.")
    row = document.revisions.select_related("created_by").filter(number=int(number)).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    row.document = document
    return row


def newest_of(document: Document) -> Revision | None:
    """The revision with the highest number."""
    row = document.revisions.select_related("created_by").order_by("-number").first()
    if row is not None:
        row.document = document
    return row


def keep_problems(request: HttpRequest, problems: Iterable[str]) -> None:
    """Sentences that the next list shows above its rows: what went wrong stands on the page, not in a toast."""
    request.session[PROBLEMS] = [*request.session.get(PROBLEMS, []), *problems][:20]


def keep_problem(request: HttpRequest, error: ArchwayError) -> None:
    keep_problems(request, [error.sentence()])


def keep_undo(request: HttpRequest, base: KnowledgeBase, uids: list[str], text: str) -> None:
    """Offer to bring deleted documents back, once, on the next list of this base."""
    request.session[UNDO] = {"base": base.uid, "uids": uids, "text": text}


def pop_undo(request: HttpRequest, base: KnowledgeBase) -> dict[str, Any] | None:
    kept: dict[str, Any] | None = request.session.pop(UNDO, None)
    return kept if kept and kept["base"] == base.uid else None


def moved_to_bin(number: int, name: str = "") -> str:
    """What the undo toast says."""
    from django.utils.translation import ngettext

    if number == 1 and name:
        return gettext("“%(name)s” is in the recycle bin") % {"name": name}
    return ngettext("%(n)s document is in the recycle bin", "%(n)s documents are in the recycle bin", number) % {
        "n": number
    }
