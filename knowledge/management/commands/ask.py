"""`manage.py ask "…" --kb NAME`: the direct answer that the pages and the API give, on a terminal or as JSON."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge import asking
from knowledge.access import visible_bases
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import MODES, RetrievalRequest, RetrievalResult
from portal.kernel.command_line import principal_for, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.principal import Principal


class Command(BaseCommand):
    help = "Asks knowledge bases: the passages that answer, numbered, each with its citation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("question")
        parser.add_argument("--kb", action="append", required=True, help="name of a base; may be given again")
        parser.add_argument("--mode", choices=MODES, help="how to search (default: as the base is set)")
        parser.add_argument("--top", type=int, dest="top_k", help="passages at most (default: as the base is set)")
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
            result, _ = asking.ask(principal, request, kind=QueryRecord.Kind.API)
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error
        if options["as_json"]:
            print_json(_as_json(result))
        else:
            self._print(result)

    def _print(self, result: RetrievalResult) -> None:
        for warning in result.warnings:
            self.stderr.write(warning["message"])
        self.stdout.write(asking.direct_answer(result))
        for hit in result.hits:
            place = f" › {hit.place}" if hit.place else ""
            self.stdout.write(f"\n[{hit.rank}] {hit.document_name}{place} (v{hit.revision_number})  {hit.citation}")


def _bases(principal: Principal, names: list[str]) -> tuple[str, ...]:
    known = list(visible_bases(principal).filter(name__in=names).order_by("pk").values_list("name", "uid"))
    for name in names:
        if name not in dict(known):
            raise CommandError(f"There is no base named {name!r}, or it is not visible to this person.")
    return tuple(uid for name in dict.fromkeys(names) for own, uid in known if own == name)


def _as_json(result: RetrievalResult) -> dict[str, Any]:
    """The stable shape: ids as everywhere in the API; `mode` is how it was searched, `score` orders within it."""
    return {
        "answer": asking.direct_answer(result),
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
