"""manage.py catalogue: collect what people may read, update the Chinese .po, compile it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.catalogue import collect, files
from portal.catalogue.words import po_path


class Command(BaseCommand):
    help = "Collect messages from templates, modules and error sentences; update and compile the Chinese catalogue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; fail when a translation is missing")

    def handle(self, *args: Any, **options: Any) -> None:
        catalogue, missing = collect.update()
        if not options["check"]:
            files.write(po_path(), catalogue)
            po_path().with_suffix(".mo").write_bytes(files.compile_mo(catalogue))
        for message in missing:
            self.stdout.write(f"missing: {message.key!r}")
        if missing and options["check"]:
            raise CommandError(f"{len(missing)} of {len(catalogue)} messages have no translation.")
        self.stdout.write(f"{len(catalogue)} messages, {len(missing)} without translation")
