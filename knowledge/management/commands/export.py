"""`manage.py export BASE --to FILE`: a base as one archive, written by this very process."""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge.access import visible_bases
from knowledge.archive import writing
from knowledge.archive.contract import Reading
from knowledge.archive.jobs import summary_of, write_snapshot
from knowledge.models import Role
from portal.kernel import audit
from portal.kernel.command_line import Progress, principal_for, print_json


class Command(BaseCommand):
    help = "Writes a knowledge base into one file that can be imported elsewhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("base", help="name or id of the base")
        parser.add_argument("--to", required=True, type=Path, metavar="FILE", help="a .zip file; it must not be there")
        parser.add_argument("--vectors", action="store_true", help="with vectors, for use with the same model")
        parser.add_argument("--revisions", choices=["all", "current"], default="all")
        parser.add_argument("--as", dest="username", help="whose rights to use (default: an admin of the workspace)")
        parser.add_argument("--workspace", help="name of the workspace (default: the first one)")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_for(options["username"], options["workspace"])
        bases = visible_bases(principal, Role.OWNER).select_related("embedding__space").order_by("pk")
        base = bases.filter(uid=options["base"]).first() or bases.filter(name=options["base"]).first()
        if base is None:
            raise CommandError(f"There is no base {options['base']!r} that this person manages.")
        target: Path = options["to"]
        if target.exists():
            raise CommandError(f"{target} is there already.")
        job = Reading(base, options["revisions"], options["vectors"])
        progress = Progress(writing.steps_of(job), "export")
        # Written beside the target under another name: a file under the wanted name is always a whole one.
        with tempfile.TemporaryDirectory(prefix=".archway-", dir=target.parent) as folder:
            part = Path(folder) / "archive.zip"
            manifest = write_snapshot(job, part, progress.at)
            part.rename(target)
        progress.end()
        audit.record(
            principal,
            "base.export",
            base,
            base_ids=[base.pk],
            revisions=options["revisions"],
            vectors=options["vectors"],
            content_hash=manifest.content_hash,
        )
        report = {"file": str(target), "bytes": target.stat().st_size, **summary_of(manifest)}
        if options["as_json"]:
            print_json(report)
        else:
            counts = ", ".join(f"{number} {name}" for name, number in report["counts"].items() if number)
            self.stdout.write(f"{target}: {report['bytes']:,} bytes; {counts}\ncontent {manifest.content_hash}")
