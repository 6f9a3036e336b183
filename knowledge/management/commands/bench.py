"""`manage.py bench ingest | retrieval | append`: figures for docs, from a command that anyone can run."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from knowledge.bench import append, ingest, retrieval
from portal.kernel.command_line import Progress, principal_for, print_json


class Command(BaseCommand):
    help = "Measures the speed of ingestion and of searches."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        ingestion = kinds.add_parser("ingest", help="ingestion against pure embedding of the same chunks")
        ingestion.add_argument("--chunks", type=int, default=2000)
        ingestion.add_argument("--rounds", type=int, default=3)
        ingestion.add_argument("--json", action="store_true", dest="as_json")
        ingestion.add_argument("--as", dest="username")

        searching = kinds.add_parser("retrieval", help="searches in a synthetic library of any size")
        searching.add_argument("--chunks", type=int, default=100_000)
        searching.add_argument("--questions", type=int, default=24, help="of each kind of asker and mode")
        searching.add_argument("--keep", action="store_true", help="keep the library's database for the next run")
        searching.add_argument("--json", action="store_true", dest="as_json")

        adding = kinds.add_parser("append", help="adding chunks to a large library against an empty one")
        adding.add_argument("--chunks", type=int, default=1_000_000)
        adding.add_argument("--added", type=int, default=1_000)
        adding.add_argument("--rounds", type=int, default=3)
        adding.add_argument("--keep", action="store_true", help="keep the library's database for the next run")
        adding.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, kind: str, as_json: bool, **options: Any) -> None:
        result = {"ingest": self._ingest, "retrieval": self._retrieval, "append": self._append}[kind](options)
        if as_json:
            print_json(result)
            return
        for name, value in result.items():
            if not isinstance(value, list):
                self.stdout.write(f"{name:<22} {value}")
        for row in result.get("cells", []):
            self.stdout.write("  ".join(f"{name}={value}" for name, value in row.items()))

    def _ingest(self, options: dict[str, Any]) -> dict[str, Any]:
        progress = Progress(options["rounds"], "bench ingest")
        result = ingest.run(
            principal_for(options["username"]),
            chunks=options["chunks"],
            rounds=options["rounds"],
            on_round=progress.at,
        )
        progress.end()
        return result

    def _retrieval(self, options: dict[str, Any]) -> dict[str, Any]:
        loading = Progress(options["chunks"], "bench retrieval")
        result = retrieval.run(
            chunks=options["chunks"],
            asked=options["questions"],
            keep=options["keep"],
            report=lambda what, done: loading.at(done if what == "load" else options["chunks"], what),
        )
        loading.end()
        return result

    def _append(self, options: dict[str, Any]) -> dict[str, Any]:
        return append.run(**{name: options[name] for name in ("chunks", "added", "rounds", "keep")})
