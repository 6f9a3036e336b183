"""`manage.py ingest PATH… --kb NAME`: files and folders into a base, by the same intake as every door."""

from __future__ import annotations

import shutil
import tempfile
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge import bases, intake, lifecycle
from knowledge.access import visible_bases
from knowledge.ingestion import pipeline
from knowledge.intake import Duplicate
from knowledge.models import KnowledgeBase, Revision, Role
from knowledge.tasks import worker_name
from portal.kernel.command_line import Progress, principal_for, print_json
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.principal import Principal

_POLL_SECONDS = 0.2


@dataclass
class Row:
    """One file of the report."""

    name: str
    status: str
    code: str = ""
    message: str = ""
    revision_id: int | None = None
    chunks: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "chunks": self.chunks,
        }


class Command(BaseCommand):
    help = "Puts files or whole folders into a knowledge base."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
        parser.add_argument("--kb", required=True, help="name of the base; made when it is not there")
        parser.add_argument("--as", dest="username", help="whose rights to use (default: an admin of the workspace)")
        parser.add_argument("--workspace", help="name of the workspace (default: the first one)")
        parser.add_argument("--wait", action="store_true", help="wait until every file has come to its end")
        parser.add_argument("--here", action="store_true", help="do the work in this process, without a worker")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_for(options["username"], options["workspace"])
        base = _base(principal, options["kb"])
        files = _files(options["paths"])
        began = time.monotonic()
        progress = Progress(len(files), "upload")
        rows = []
        for number, (path, name) in enumerate(files, 1):
            rows.append(_receive(principal, base, path, name))
            progress.at(number, name)
        progress.end()
        if options["here"]:
            _work_here(rows)
        if options["wait"] or options["here"]:
            _wait(rows)
        seconds = time.monotonic() - began
        if options["as_json"]:
            print_json(_report(rows, seconds))
        else:
            self._print(rows, seconds)

    def _print(self, rows: list[Row], seconds: float) -> None:
        for row in rows:
            reason = f"  {row.code}: {row.message}" if row.code else ""
            self.stdout.write(f"{row.status:<10} {row.chunks:>6}  {row.name}{reason}")
        counts = ", ".join(f"{value} {name}" for name, value in _report(rows, seconds)["counts"].items() if value)
        self.stdout.write(f"{counts}; {seconds:.1f} s")


def _base(principal: Principal, name: str) -> KnowledgeBase:
    base = visible_bases(principal, Role.EDITOR).filter(name=name).first()
    if base is not None:
        return base
    try:
        return bases.create(principal, name=name)
    except ArchwayError as error:
        raise CommandError(error.sentence()) from error


def _files(paths: list[Path]) -> list[tuple[Path, str]]:
    """Every file with its relative name; what systems leave in folders is left out."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.is_file())
            for item in inside:
                relative = item.relative_to(path)
                if not intake.is_junk(relative.as_posix()):
                    found.append((item, relative.as_posix()))
        elif path.is_file():
            found.append((path, path.name))
        else:
            raise CommandError(f"There is no file or folder {path}.")
    return found


def _receive(principal: Principal, base: KnowledgeBase, path: Path, name: str) -> Row:
    with tempfile.TemporaryDirectory(prefix="archway-ingest-") as folder:
        copy = Path(folder) / "file"
        shutil.copyfile(path, copy)
        try:
            received = intake.receive(principal, base, copy, name)
        except Duplicate as error:
            return Row(name, "duplicate", error.code, error.sentence())
        except Invalid as error:
            # The file itself can not be read (code of a parser), or its type is not accepted.
            return Row(name, "refused", error.code, error.sentence())
        except ArchwayError as error:
            return Row(name, "refused", error.code, error.sentence())
    revision = received.revision
    return Row(name, received.status, revision_id=revision.pk if revision else None)


def _work_here(rows: list[Row]) -> None:
    wanted = [row.revision_id for row in rows if row.revision_id]
    progress = Progress(len(wanted), "ingest")
    for number, revision_id in enumerate(wanted, 1):
        while claim := lifecycle.claim(worker_name(), revision_id):
            pipeline.work(claim)
        progress.at(number)
    progress.end()


def _wait(rows: list[Row]) -> None:
    wanted = {row.revision_id: row for row in rows if row.revision_id}
    progress = Progress(len(wanted), "ingest")
    while True:
        states = Revision.objects.filter(pk__in=wanted).select_related("document")
        ended = [state for state in states if state.status not in lifecycle.OPEN]
        progress.at(len(ended))
        if len(ended) == len(wanted):
            break
        time.sleep(_POLL_SECONDS)
    progress.end()
    for state in ended:
        row = wanted[state.pk]
        row.status, row.chunks, row.code = state.status, state.chunk_count, state.error_code
        if state.error_message:
            row.message = str(ArchwayError(state.error_message, **state.error_params))


def _report(rows: list[Row], seconds: float) -> dict[str, Any]:
    counts = dict.fromkeys(("total", "indexed", "no_text", "failed", "duplicate", "refused"), 0)
    counts["total"] = len(rows)
    for row in rows:
        if row.status in counts:
            counts[row.status] += 1
    chunks = sum(row.chunks for row in rows)
    return {
        "counts": counts,
        "seconds": round(seconds, 2),
        "chunks": chunks,
        "chunks_per_second": round(chunks / seconds, 2) if seconds else 0.0,
        "files": [row.as_json() for row in rows],
    }
