"""The page of a base's tags: how often each is used, adding, renaming, merging, deleting."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import tags as verbs
from knowledge.access import access_base
from knowledge.models import KnowledgeBase, Role
from knowledge.pages import frame
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal


@require_safe
@signed_in
def tags(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/tags/`. Everybody sees the words; who may edit the base may change them."""
    return _page(request, access_base(principal, base))


def _page(request: PortalRequest, base: KnowledgeBase, **more: Any) -> HttpResponse:
    rows = verbs.vocabulary(base)
    context = {
        **frame.base_frame(base, "documents"),
        "rows": rows,
        "unused": sum(not r.documents for r in rows),
        **more,
    }
    return render(request, "knowledge/tags.html", context, status=422 if more else 200)


@require_POST
@signed_in
def change(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """`verb` is add, rename, merge, delete, or delete-unused; `tag` names the tag, `name` or `into` what it becomes."""
    home = access_base(principal, base, Role.EDITOR)
    data = request.POST
    verb, tag, name = data.get("verb", ""), data.get("tag", ""), data.get("name", "")
    try:
        said = _change(principal, home, verb, tag, name, data.get("into", ""))
    except (Conflict, Invalid, NotFound) as error:
        return _page(request, home, problem=error.sentence(), problem_tag=tag, problem_verb=verb, typed=name)
    say(request, said)
    return HttpResponseRedirect(f"/bases/{home.uid}/tags/")


def _change(principal: Principal, base: KnowledgeBase, verb: str, tag: str, name: str, into: str) -> str:
    if verb == "add":
        return gettext("“%(name)s” is a tag now") % {"name": verbs.create(principal, base, name).name}
    if verb == "rename":
        return _said(verbs.rename(principal, base, verbs.find(base, tag), name))
    if verb == "merge":
        return _said(verbs.merge(principal, base, verbs.find(base, tag), verbs.find(base, into)))
    if verb == "delete":
        return _said(verbs.delete(principal, base, verbs.find(base, tag)))
    if verb == "delete-unused":
        unused = verbs.unused(base)
        for word in unused:
            verbs.delete(principal, base, verbs.find(base, word))
        return ngettext("%(n)s tag is deleted", "%(n)s tags are deleted", len(unused)) % {"n": len(unused)}
    raise Invalid("Choose what to do with the tag.", code="verb_unknown")


def _said(documents: int) -> str:
    return ngettext("Changed on %(n)s document", "Changed on %(n)s documents", documents) % {"n": documents}
