"""`manage.py doctor`: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from portal.diagnosis import examine


class Command(BaseCommand):
    help = "Looks at servers, workers, model, folders and settings. Exit code 1 when something needs mending."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        ok = self._print_json() if json else self._print_lines()
        if not ok:
            raise CommandError(_("Something needs mending."))

    def _print_json(self) -> bool:
        checks = [asdict(check) for check in examine()]
        ok = all(check["ok"] for check in checks)
        self.stdout.write(json.dumps({"ok": ok, "checks": checks}, ensure_ascii=False))
        return ok

    def _print_lines(self) -> bool:
        ok = True
        for check in examine():
            ok = ok and check.ok
            mark = self.style.SUCCESS("ok  ") if check.ok else self.style.ERROR("FAIL")
            self.stdout.write(f"{mark} {check.name:<17} {check.detail}")
            if check.advice:
                self.stdout.write(f"     {'':<17} → {check.advice}")
        return ok
