"""`manage.py verify`: proves what the design promises about the data that is there."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from knowledge.verification import verify
from portal.kernel.command_line import print_json


class Command(BaseCommand):
    help = (
        "Checks that nothing outside of active, searchable revisions can be found, that word statistics equal a "
        "recount, and that the audit log's chain is whole. Exit code 1 when something is wrong."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repair", action="store_true", help="recount word statistics that are wrong")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, repair: bool, as_json: bool, **options: Any) -> None:
        findings = verify(repair=repair)
        ok = all(finding.ok for finding in findings)
        if as_json:
            print_json({"ok": ok, "checks": [asdict(finding) for finding in findings]})
        else:
            for finding in findings:
                mark = self.style.SUCCESS("ok  ") if finding.ok else self.style.ERROR("FAIL")
                self.stdout.write(f"{mark} {finding.name}: {finding.detail}")
        if not ok:
            raise CommandError(_("Something is not as it should be."))
