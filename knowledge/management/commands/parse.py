"""`manage.py parse FILE [--json]`: shows the blocks of a file with their positions. Needs no database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from knowledge.ingestion.reading import read


class Command(BaseCommand):
    help = "Parse a file and show its blocks with their positions."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--json", action="store_true", help="Print one JSON object and nothing else.")

    def handle(self, *args: Any, **options: Any) -> None:
        on_terminal = self.stderr.isatty() and not options["json"]
        report = read(options["file"], on_progress=self._show if on_terminal else None)
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
            return  # with --json the error is part of the answer
        self._print(report)
        if report["error"]:
            raise SystemExit(1)

    def _show(self, done: int, total: int) -> None:
        self.stderr.write(f"\r{done}/{total or '?'}", ending="")

    def _print(self, report: dict[str, Any]) -> None:
        self.stdout.write(f"{report['name']} ({report['mime']})")
        if report["error"]:
            self.stdout.write(f"{report['error']['code']}: {report['error']['message']}")
        for warning in report["warnings"]:
            self.stdout.write(f"! {warning}")
        for block in report["blocks"]:
            place = [f"{name} {block[name]}" for name in ("page", "slide", "sheet", "rows") if block[name]]
            above = " > ".join(block["heading_path"])
            self.stdout.write(f"\n[{block['kind']}] {' '.join(place)} {above}".rstrip())
            self.stdout.write(block["text"])
