# ruff: noqa: N999  (a command is named by its module, and people type `import`)
"""`manage.py import FILE`: a new base from an archive, made by this very process; embedding is the workers' work."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge import archive, background
from knowledge.archive import jobs
from knowledge.ingestion import pipeline
from knowledge.lifecycle import OPEN, claim
from knowledge.models import Archive, Revision
from knowledge.tasks import worker_name
from portal.kernel.command_line import Progress, principal_for, print_json
from portal.kernel.errors import ArchwayError


class Command(BaseCommand):
    help = "Makes a new knowledge base from the file of an export."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--workspace", help="name of the workspace (default: the first one)")
        parser.add_argument("--as", dest="username", help="who will own the base (default: an admin of the workspace)")
        parser.add_argument("--name", default="", help="name of the new base (default: as it was called there)")
        parser.add_argument("--here", action="store_true", help="also do the embedding here, without a worker")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_for(options["username"], options["workspace"])
        path: Path = options["file"]
        if not path.is_file():
            raise CommandError(f"There is no file {path}.")
        try:
            # Not woken: this process takes the work itself.
            row = archive.start_import(principal, path, path.name, name=options["name"], wake=False)
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error
        turn = background.claim(row)
        if turn is None:
            raise CommandError("Another process has taken this import over.")
        jobs.run(turn)
        row = Archive.objects.select_related("base").get(pk=row.pk)
        if row.status != Archive.Status.DONE or row.base is None:
            raise CommandError(ArchwayError(row.error_message, **row.error_params).sentence())
        waiting = list(Revision.objects.filter(base=row.base, status__in=OPEN).values_list("pk", flat=True))
        if options["here"]:
            self._work(waiting)
            waiting = []
        report = {
            "base": row.base.uid,
            "name": row.base.name,
            "content_hash": row.summary["content_hash"],
            "counts": row.summary["counts"],
            "waiting": len(waiting),
        }
        if options["as_json"]:
            print_json(report)
        else:
            self.stdout.write(f"{row.base.name}: {report['counts']['documents']} documents, {len(waiting)} to embed")

    def _work(self, waiting: list[int]) -> None:
        progress = Progress(len(waiting), "embed")
        for number, pk in enumerate(waiting, 1):
            while taken := claim(worker_name(), pk):
                pipeline.work(taken)
            progress.at(number)
        progress.end()
