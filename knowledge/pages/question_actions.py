"""The questions of a passage, written and switched on the page of chunks."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST

from knowledge.models import Chunk, ChunkQuestion, Role
from knowledge.pages.chunk_cards import Opened
from knowledge.pages.chunk_pages import page
from knowledge.pages.frame import open_document
from knowledge.questions import verbs
from portal.kernel.errors import ArchwayError, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal


@require_POST
@signed_in
def act(request: PortalRequest, principal: Principal, base: str, document: str, chunk: int) -> HttpResponse:
    """`verb` is add (`text`: one question a line), change, enable, disable or delete (`question`: which one)."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    passage = (
        Chunk.objects.defer("lexemes")
        .select_related("revision")
        .filter(pk=chunk, revision__document=row, level=Chunk.Level.PASSAGE)
        .first()
    )
    if passage is None:
        raise NotFound("Not found, or you don't have access.")
    passage.revision.document = row
    data = request.POST
    try:
        said = _act(principal, passage, data.get("verb", ""), data.get("question", ""), data.get("text", ""))
    except NotFound:
        raise
    except ArchwayError as error:
        opened = Opened(chunk, "questions", problem=error.sentence(), typed=data.get("text", ""))
        return page(request, home, row, passage.revision, opened, status=422)
    say(request, said)
    address = f"/bases/{home.uid}/documents/{row.uid}/chunks/"
    return HttpResponseRedirect(f"{address}?rev={passage.revision.number}&open={chunk}&panel=questions#k{chunk}")


def _act(principal: Principal, passage: Chunk, verb: str, uid: str, text: str) -> str:
    if verb == "add":
        added = verbs.add(principal, passage, [line for line in text.splitlines() if line.strip()])
        return ngettext("%(n)s question added", "%(n)s questions added", len(added)) % {"n": len(added)}
    rows = ChunkQuestion.objects.select_related("chunk").defer("lexemes", "chunk__lexemes")
    question = rows.filter(uid=uid, chunk=passage).first()
    if question is None:
        raise NotFound("Not found, or you don't have access.")
    if verb == "change":
        verbs.change(principal, question, text)
        return gettext("Saved")
    if verb == "delete":
        verbs.delete(principal, question)
        return gettext("The question is deleted")
    if verb not in ("enable", "disable"):
        raise Invalid("Choose what to do with the question.", code="verb_unknown")
    verbs.set_enabled(principal, question, verb == "enable")
    return gettext("Searches use the question again") if verb == "enable" else gettext("Searches no longer use it")
