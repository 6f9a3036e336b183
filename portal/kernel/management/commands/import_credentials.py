"""`manage.py import_credentials APP.MODEL`: seals secrets that stand in a column as plain text."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from portal.kernel.command_line import Progress, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.secrets.importing import PlaintextColumn, import_rows, pending


class Command(BaseCommand):
    help = "Seals secrets that stand in a column as plain text, verifies each, and takes it out of the column."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("model", help="such as gateway.ModelEndpoint")
        parser.add_argument("--value", required=True, help="the column with the secrets")
        parser.add_argument("--host", required=True, help="the column with the host or URL that each is for")
        parser.add_argument("--reference", help="the column for the reference (default: that of the secret)")
        parser.add_argument("--name", default="", help="the column that names the credential")
        parser.add_argument("--dry-run", action="store_true", help="only count")
        parser.add_argument("--rewrite-table", action="store_true", help="VACUUM FULL afterwards: locks the table")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        column = PlaintextColumn(
            options["model"],
            value=options["value"],
            host=options["host"],
            reference=options["reference"] or options["value"],
            name=options["name"],
        )
        try:
            total = len(pending(column))
            failed = [] if options["dry_run"] else self._import(column, total)
        except ArchwayError as error:
            raise CommandError(f"{error.sentence()} What was sealed stays sealed; run this again to go on.") from error
        done = 0 if options["dry_run"] else total - len(failed)
        if options["rewrite_table"] and done:
            self._rewrite(column)
        if options["as_json"]:
            rows = [{"id": str(pk), "code": code} for pk, code in failed]
            print_json({"found": total, "sealed": done, "failed": rows})
        else:
            self._tell(total, done, failed)
        if failed:
            raise CommandError("Some rows were left as they are.")

    def _import(self, column: PlaintextColumn, total: int) -> list[tuple[Any, str]]:
        progress = Progress(total, "Sealing")
        failed = []
        for number, (pk, code) in enumerate(import_rows(column), start=1):
            if code:
                failed.append((pk, code))
            progress.at(number)
        progress.end()
        return failed

    def _rewrite(self, column: PlaintextColumn) -> None:
        table = connection.ops.quote_name(apps.get_model(column.model)._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM FULL {table}")

    def _tell(self, total: int, done: int, failed: list[tuple[Any, str]]) -> None:
        self.stdout.write(f"{done} of {total} sealed.")
        for pk, code in failed:
            self.stderr.write(f"Left as it is: {pk} ({code})")
        if done:
            self.stdout.write(
                "Backups, WAL files and, until the table is rewritten, its dead rows still hold the plain values: "
                "replace these secrets at their providers (`manage.py credentials expose`)."
            )
