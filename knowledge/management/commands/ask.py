"""`manage.py ask "…" --kb NAME`: the answer that the pages and the API give, on a terminal or as JSON.

The passages themselves, or with `--written` what a chat model writes from them, word by word as it comes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext

from knowledge import asking
from knowledge.access import visible_bases
from knowledge.answering import preparing, records, writing
from knowledge.answering.contract import Answer, AnswerRequest, Prepared, State, Warned
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import MODES, Hit, RetrievalRequest, RetrievalResult
from portal.kernel.command_line import principal_for, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.principal import Principal


class Command(BaseCommand):
    help = "Asks knowledge bases: the passages that answer, or a model's answer from them, with numbered citations."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question")
        parser.add_argument("--kb", action="append", required=True, help="name of a base; may be given again")
        parser.add_argument("--mode", choices=MODES, help="how to search (default: as the base is set)")
        parser.add_argument("--top", type=int, dest="top_k", help="passages at most (default: as the base is set)")
        parser.add_argument("--written", action="store_true", help="let a chat model answer from the passages")
        parser.add_argument("--model", default="", help="uid of the chat model (default: as the base is set)")
        parser.add_argument("--as", dest="username", help="whose rights to use (default: an admin of the workspace)")
        parser.add_argument("--workspace", help="name of the workspace (default: the first one)")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_for(options["username"], options["workspace"])
        request = RetrievalRequest(
            query=options["question"],
            base_uids=_bases(principal, options["kb"]),
            mode=options["mode"],
            top_k=options["top_k"],
        )
        try:
            if options["written"]:
                self._written(principal, request, options["model"], as_json=options["as_json"])
                return
            result, _ = asking.ask(principal, request, kind=QueryRecord.Kind.API)
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error
        if options["as_json"]:
            print_json(_as_json(result, asking.direct_answer(result)))
            return
        self._warn(result.warnings)
        self.stdout.write(asking.direct_answer(result))
        self._name(result.hits)

    def _written(self, principal: Principal, request: RetrievalRequest, model: str, *, as_json: bool) -> None:
        """The model's answer. One that broke off, or never began, ends with its reason and exit code 1."""
        asked = AnswerRequest(request, processing="model_opt", endpoint=model)
        prepared = preparing.prepare(principal, asked)
        # Where no model can be asked the passages are the answer, as on the page.
        answer = writing.whole(prepared) if as_json else async_to_sync(self._streamed)(prepared)
        kept = None if prepared.processing == "direct" else answer
        records.keep(principal, asked, prepared, kind=QueryRecord.Kind.API, state=answer.state, answer=kept)
        if as_json:
            found = _as_json(prepared.result, answer.text)
            about = {"state": str(answer.state), "model": answer.model, "citations": list(answer.citations)}
            print_json({**found, **about, "code": answer.code})
        else:
            self._warn((*prepared.result.warnings, *answer.warnings))
            if answer.state != State.NO_BASIS:
                cited = set(answer.citations)
                self._name([hit for hit in prepared.result.hits if hit.rank in cited])
        if answer.code:
            raise CommandError(answer.message)

    async def _streamed(self, prepared: Prepared) -> Answer:
        """The answer, put on the terminal as it comes."""
        shown = ""
        answer: Answer | None = None
        async with aclosing(writing.written(prepared)) as events:
            async for event in events:
                if event.name == "answer.delta":
                    shown += event.data["text"]
                    self.stdout.write(event.data["text"], ending="")
                    self.stdout.flush()
                elif event.name == "answer.done":
                    answer = Answer.of(event.data)
        assert answer is not None  # `written` ends with it
        # Passages that stand in for an answer that never began.
        self.stdout.write("" if shown else answer.text)
        return answer

    def _warn(self, warnings: Iterable[Warned]) -> None:
        for warning in warnings:
            self.stderr.write(gettext(warning["message"]))

    def _name(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            place = f" › {hit.place}" if hit.place else ""
            self.stdout.write(f"\n[{hit.rank}] {hit.document_name}{place} (v{hit.revision_number})  {hit.citation}")


def _bases(principal: Principal, names: list[str]) -> tuple[str, ...]:
    known = list(visible_bases(principal).filter(name__in=names).order_by("pk").values_list("name", "uid"))
    for name in names:
        if name not in dict(known):
            raise CommandError(f"There is no base named {name!r}, or it is not visible to this person.")
    return tuple(uid for name in dict.fromkeys(names) for own, uid in known if own == name)


def _as_json(result: RetrievalResult, answer: str) -> dict[str, Any]:
    """The stable shape: ids as everywhere in the API; `mode` is how it was searched, `score` orders within it."""
    return {
        "answer": answer,
        "mode": result.mode,
        "hits": [
            {
                "document": hit.document,
                "revision": hit.revision,
                "chunk": hit.chunk,
                "text": hit.text,
                "score": hit.score,
                "citation": hit.citation,
            }
            for hit in result.hits
        ],
        "trace": result.trace,
    }
