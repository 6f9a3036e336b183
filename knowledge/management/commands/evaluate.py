"""`manage.py evaluate DIR`: how well retrieval answers the questions of an evaluation set."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge.evaluation import evaluate
from knowledge.retrieval import MODES
from portal.kernel.command_line import Progress, print_json
from portal.kernel.errors import ArchwayError


class Command(BaseCommand):
    requires_system_checks: list[str] = []
    help = "Ingests a corpus once, asks its judged questions and reports recall, MRR, nDCG and milliseconds per mode."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="corpus.jsonl, queries.jsonl, qrels.tsv")
        parser.add_argument("--mode", nargs="+", choices=MODES, default=list(MODES), metavar="MODE")
        parser.add_argument("--limit", type=int, help="ask only the first so many questions")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, folder: Path, mode: list[Any], limit: int | None, **options: Any) -> None:
        bars: dict[str, Progress] = {}

        def show(what: str, done: int, total: int) -> None:
            bar = bars.setdefault(what, Progress(total, what))
            bar.at(done, what)
            if done == total:
                bar.end()

        try:
            report = evaluate(folder, mode, limit=limit, progress=show)
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error
        if options["as_json"]:
            print_json(report)
        else:
            self._print(report)

    def _print(self, report: dict[str, Any]) -> None:
        self.stdout.write(f"{report['set']}: {report['documents']} documents, {report['queries']} questions")
        for mode, measures in report["modes"].items():
            row = "  ".join(f"{name} {value:.3f}" for name, value in measures.items() if not name.endswith("_ms"))
            times = f"p50 {measures['p50_ms']:.0f} ms  p95 {measures['p95_ms']:.0f} ms"
            self.stdout.write(f"{mode:<10} {row}  {times}")
