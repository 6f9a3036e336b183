"""`manage.py bench ingest`: figures for docs, from a command that anyone can run."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from knowledge.bench import ingest
from portal.kernel.command_line import Progress, principal_for, print_json


class Command(BaseCommand):
    help = "Measures the speed of ingestion."

    def add_arguments(self, parser: ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        ingestion = kinds.add_parser("ingest", help="ingestion against pure embedding of the same chunks")
        ingestion.add_argument("--chunks", type=int, default=2000)
        ingestion.add_argument("--rounds", type=int, default=3)
        ingestion.add_argument("--json", action="store_true", dest="as_json")
        ingestion.add_argument("--as", dest="username")

    def handle(self, *args: Any, **options: Any) -> None:
        progress = Progress(options["rounds"], "bench ingest")
        result = ingest.run(
            principal_for(options["username"]),
            chunks=options["chunks"],
            rounds=options["rounds"],
            on_round=progress.at,
        )
        progress.end()
        if options["as_json"]:
            print_json(result)
            return
        for name, value in result.items():
            self.stdout.write(f"{name:<22} {value}")
