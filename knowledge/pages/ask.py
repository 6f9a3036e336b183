"""The ask page: questions over the bases that the asker sees, answers with citations, threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge import threads
from knowledge.access import searchable_documents, visible_bases
from knowledge.answering import preparing, records, writing
from knowledge.answering.contract import PROCESSINGS, Answer, AnswerRequest, Prepared, Processing, State
from knowledge.models import Chunk, KnowledgeBase, QueryRecord, Role
from knowledge.pages import passages
from knowledge.pages.search_settings import SearchSettings
from knowledge.pages.written import Written, written
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import json_safe, new_uid
from portal.kernel.pages import is_htmx, signed_in
from portal.kernel.principal import Principal

LONGEST = 1000
EXCERPT = 700
EXAMPLES = 3
MOST_BASES = 300
_UNDO = "thread_undo"
_RATINGS = {"yes": True, "no": False, "": None}


class Question(forms.Form):
    """What is asked."""

    q = forms.CharField(
        label=gettext_lazy("Question"),
        max_length=LONGEST,
        error_messages={"required": gettext_lazy("Enter a question.")},
        widget=forms.Textarea(attrs={"rows": 2}),
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """One turn as it is shown. `uid` is empty for an answer that is not kept; `key` names it within the page."""

    uid: str
    key: str
    query: str
    readable: bool
    cited: list[passages.Card]
    others: list[passages.Card]
    searched: int
    below_threshold: int
    warnings: list[str]
    helpful: bool | None
    record: QueryRecord | None
    copy_text: str
    written: Written | None = None
    searched_for: str = ""
    # Whether its person may put it into the evaluation set of a base that it was found in.
    may_save: bool = False

    @property
    def retrieved(self) -> int:
        return len(self.cited) + len(self.others)


@dataclass(frozen=True, slots=True)
class Scope:
    """The bases that may be asked; `chosen` empty means all of them."""

    bases: list[KnowledgeBase]
    chosen: list[str]

    @property
    def names(self) -> list[str]:
        return [base.name for base in self.bases if base.uid in self.chosen]


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def ask(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/ask/?base=&q=`; a question in the address is asked at once, one in a form is posted."""
    data = request.POST if request.method == "POST" else request.GET
    scope = _scope(principal, data.getlist("base"))
    settings = SearchSettings.of(data)
    thread = data.get("thread", "") if request.method == "POST" else ""
    if thread and not threads.title(principal, thread):
        raise NotFound("Not found, or you don't have access.")
    if request.method == "POST" or _asks_at_once(request):
        form = Question({"q": data.get("q", "").replace("\x00", "")})
        if form.is_valid():
            asked = AnswerRequest(
                retrieval=settings.request(form.cleaned_data["q"], scope.chosen),
                processing=_processing(data.get("processing", "")),
                history=records.earlier(principal, threads.turns(principal, thread)) if thread else (),
            )
            return _answered(request, principal, scope, settings, asked, thread)
    else:
        form = Question(initial={"q": data.get("q", "")[:LONGEST]})
    return _page(request, principal, form, scope, settings, thread)


@require_safe
@signed_in
def saved_thread(request: PortalRequest, principal: Principal, thread: str) -> HttpResponse:
    """A thread at `/ask/<thread>/`."""
    turns = threads.turns(principal, thread)
    wanted = request.GET.getlist("base")
    last = turns[-1].record.request
    if not wanted:
        # As it was asked last, as far as that is still to be seen.
        wanted = _still_visible(principal, last.get("base_uids") or [])
    settings = SearchSettings.of(request.GET if SearchSettings.of(request.GET).chosen else last)
    return _page(request, principal, Question(), _scope(principal, wanted), settings, thread)


@require_POST
@signed_in
def rate(request: PortalRequest, principal: Principal, thread: str, record: str) -> HttpResponse:
    """Helpful, not helpful, or neither."""
    value = request.POST.get("helpful", "")
    if value not in _RATINGS:
        raise NotFound("Not found, or you don't have access.")
    threads.rate(principal, thread, record, _RATINGS[value])
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse({"helpful": _RATINGS[value]})
    return HttpResponseRedirect(f"/ask/{thread}/#m_{record}")


@require_POST
@signed_in
def delete(request: PortalRequest, principal: Principal, thread: str) -> HttpResponse:
    """Delete a thread; the next page offers to bring it back."""
    undoable = threads.delete(principal, thread)
    request.session[_UNDO] = {"thread": thread, "undoable": undoable}
    return HttpResponseRedirect("/ask/")


@require_POST
@signed_in
def restore(request: PortalRequest, principal: Principal, thread: str) -> HttpResponse:
    """Bring back a thread that was just deleted."""
    threads.restore(principal, thread)
    return HttpResponseRedirect(f"/ask/{thread}/")


def _asks_at_once(request: HttpRequest) -> bool:
    """A question in the address is asked when a person came from here or typed it, not when a browser looks ahead."""
    if request.method != "GET" or not request.GET.get("q", "").strip():
        return False
    ahead = "prefetch" in (request.headers.get("Sec-Purpose", "") + request.headers.get("Purpose", ""))
    return not ahead and request.headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}


def _processing(value: str) -> Processing | None:
    return next((known for known in PROCESSINGS if known == value), None)


def _answered(
    request: PortalRequest,
    principal: Principal,
    scope: Scope,
    settings: SearchSettings,
    asked: AnswerRequest,
    thread: str,
) -> HttpResponse:
    uid = thread or new_uid()
    prepared = preparing.prepare(principal, asked)
    record, answer = _kept(principal, asked, prepared, uid, live=is_htmx(request))
    kept = uid if record is not None else thread
    query_string = settings.encoded(scope.chosen)
    address = f"/ask/{kept}/" + (f"?{query_string}" if query_string else "") if kept else ""
    if not is_htmx(request):
        if record is not None:
            return HttpResponseRedirect(f"{address}#m_{record.uid}")
        unkept = _unkept(request, principal, prepared, answer)
        return _page(request, principal, Question(), scope, settings, thread, unkept=unkept)
    context = {
        "answer": answer_of(request, principal, record)
        if record is not None
        else _unkept(request, principal, prepared, answer),
        "thread": kept,
        "threads": threads.threads(principal),
        "title": threads.title(principal, kept) if kept else prepared.question,
        "arrived": True,
    }
    response = render(request, "knowledge/ask_arrived.html", context)
    if address:
        response.headers["HX-Push-Url"] = address
    return response


def _kept(
    principal: Principal, asked: AnswerRequest, prepared: Prepared, thread: str, *, live: bool
) -> tuple[QueryRecord | None, Answer | None]:
    """The record of the question; with scripts a model's answer is written while the page follows it."""
    kind = QueryRecord.Kind.ASK
    if live and prepared.asks_model:
        record = records.keep(principal, asked, prepared, kind=kind, thread=thread, state=State.WAITING)
        if record is not None:
            return record, None
    direct = prepared.processing == "direct"
    answer = writing.without_model(prepared) if direct else writing.whole(prepared)
    # Notes on why the passages answer are worth keeping; plain passages are in the result already.
    told = answer if not direct or answer.warnings or answer.searched_for else None
    return records.keep(principal, asked, prepared, kind=kind, thread=thread, state=answer.state, answer=told), answer


def _page(
    request: PortalRequest,
    principal: Principal,
    form: Question,
    scope: Scope,
    settings: SearchSettings,
    thread: str,
    unkept: Shown | None = None,
) -> HttpResponse:
    turns = threads.turns(principal, thread) if thread else []
    answers = [answer_of(request, principal, turn.record) if turn.readable else _hidden(turn.record) for turn in turns]
    if unkept is not None:
        answers.append(unkept)
    listed = threads.threads(principal)
    chosen = settings.chosen
    context = {
        "form": form,
        "scope": scope,
        "settings": chosen,
        "fingerprint": settings.fingerprint(scope.chosen) if chosen else "",
        "plain_address": f"/ask/{thread}/" if thread else _scope_address(scope),
        "thread": thread,
        "threads": listed,
        "title": turns[0].record.query if turns else "",
        "answers": answers,
        "examples": _examples(principal, scope) if not answers else [],
        "undo": request.session.pop(_UNDO, None),
        "longest": LONGEST,
        "chooses": visible_endpoints(principal, ModelEndpoint.Kind.CHAT).exists(),
        "processing": request.GET.get("processing", ""),
    }
    return render(request, "knowledge/ask.html", context, status=422 if form.errors else 200)


def _scope_address(scope: Scope) -> str:
    query = SearchSettings().encoded(scope.chosen)
    return f"/ask/?{query}" if query else "/ask/"


def _scope(principal: Principal, wanted: Sequence[str]) -> Scope:
    """The asker's bases; one that is asked for and not among them is not found."""
    bases = list(visible_bases(principal).order_by("name", "pk"))
    known = {base.uid for base in bases}
    chosen = list(dict.fromkeys(uid for uid in wanted if uid))
    if not known.issuperset(chosen):
        raise NotFound("Not found, or you don't have access.")
    return Scope(bases[:MOST_BASES], chosen)


def _still_visible(principal: Principal, uids: Sequence[str]) -> list[str]:
    known = set(visible_bases(principal).filter(uid__in=uids).values_list("uid", flat=True))
    return [uid for uid in uids if uid in known]


def answer_of(request: HttpRequest, principal: Principal, record: QueryRecord) -> Shown:
    """A kept answer as it is shown to its person, who may still read it."""
    return _shown(request, principal, record.result, record.query, record.answer, record.answering, record)


def _unkept(request: HttpRequest, principal: Principal, prepared: Prepared, answer: Answer | None) -> Shown:
    result, given = json_safe(prepared.result.as_json()), answer.as_json() if answer else {}
    state = given.get("state", "") if given.get("processing") == "model_opt" else ""
    return _shown(request, principal, result, prepared.question, given, state, None)


def _shown(
    request: HttpRequest,
    principal: Principal,
    outcome: dict[str, Any],
    query: str,
    answer: dict[str, Any],
    state: str,
    record: QueryRecord | None,
) -> Shown:
    hits = outcome["hits"]
    cards = passages.cards(principal, hits, EXCERPT)
    by_model = state if answer.get("processing", "model_opt") == "model_opt" else ""
    if by_model:
        named = set(answer.get("citations") or ())
        cited = [card for card in cards if card.hit["rank"] in named]
        others = [card for card in cards if card.hit["rank"] not in named]
    else:
        number = passages.cited(hits)
        cited, others = cards[:number], cards[number:]
    text = written(answer, by_model, cards)
    told = [*outcome["warnings"], *answer.get("warnings", ())]
    # That text went out stands beside the model's name: said with each answer, a warning would be read no more.
    warnings = [gettext(str(warning["message"])) for warning in told if warning["code"] != "text_left_house"]
    if state == State.FAILED and answer.get("message"):
        warnings.append(str(answer["message"]))
    return Shown(
        uid=record.uid if record else "",
        key=record.uid if record else new_uid(),
        query=query,
        readable=True,
        cited=cited,
        others=others,
        searched=outcome["searched"],
        below_threshold=outcome["below_threshold"],
        warnings=warnings,
        helpful=record.helpful if record else None,
        record=record,
        copy_text=_as_text(request, query, cited, text.text if text else None),
        written=text,
        # As a model reworded it, or with mistyped words put right.
        searched_for=str(answer.get("searched_for") or outcome.get("meant", "")),
        may_save=record is not None and not _editable(request, principal).isdisjoint(hit["base"] for hit in hits),
    )


def _editable(request: HttpRequest, principal: Principal) -> frozenset[str]:
    """The uids of the bases that the asker may edit, looked up once a request."""
    if not hasattr(request, "editable_bases"):
        found = frozenset(visible_bases(principal, Role.EDITOR).values_list("uid", flat=True))
        request.editable_bases = found  # type: ignore[attr-defined]
    return request.editable_bases  # type: ignore[attr-defined,no-any-return]


def _hidden(record: QueryRecord) -> Shown:
    """A question whose sources are out of sight: nothing of its answer is handed on."""
    return Shown(record.uid, record.uid, record.query, False, [], [], 0, 0, [], None, record, "")


def _as_text(request: HttpRequest, query: str, cards: Sequence[passages.Card], answer: str | None = None) -> str:
    """What the copy button takes: the answer, or each passage with its number, and the sources with their addresses."""
    open_cards = [card for card in cards if card.available]
    texts = [answer] if answer else [f"[{card.hit['rank']}] {card.hit['text']}" for card in open_cards]
    sources = [
        f"[{card.hit['rank']}] {card.hit['document_name']}"
        + (f" › {card.place}" if card.place else "")
        + f"\n{request.build_absolute_uri(str(card.hit['citation']))}"
        for card in open_cards
    ]
    return "\n\n".join([query, *texts, *sources])


def _examples(principal: Principal, scope: Scope) -> list[str]:
    """Questions that the scope can answer, made of its newest documents: a heading of each, or its name."""
    documents = searchable_documents(principal).select_related("active_revision").order_by("-updated_at", "-pk")
    if scope.chosen:
        documents = documents.filter(base__uid__in=scope.chosen)
    found = []
    for document in documents[:EXAMPLES]:
        paths = (
            Chunk.objects.filter(revision=document.active_revision)
            .exclude(heading_path=[])
            .order_by("start", "pk")
            .values_list("heading_path", flat=True)[:24]
        )
        titles = list(dict.fromkeys(path[-1] for path in paths if 2 <= len(path[-1]) <= 40))
        name = document.name.rsplit(".", 1)[0]
        if titles:
            words = {"document": name, "heading": titles[len(titles) // 2]}
            found.append(gettext("What does “%(document)s” say about “%(heading)s”?") % words)
        else:
            found.append(gettext("What is “%(document)s” about?") % {"document": name})
    return found
