"""`manage.py rotate_master_key`: seals every stored secret under today's master key and retires the old one.

What to do before and after: docs/operations.md, "Master key".
"""

from __future__ import annotations

import base64
import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.embedded import locations
from portal.kernel.command_line import Progress, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import keyring, rotation


class Command(BaseCommand):
    help = "Seals every stored secret under the current master key, verifies it, and retires the old key."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--new-key", action="store_true", help="development: make a fresh generated key first")
        parser.add_argument("--print-key", action="store_true", help="print a fresh key for a key file, and do no more")
        parser.add_argument("--all", action="store_true", help="also what is sealed under the current key already")
        parser.add_argument("--keep-old", action="store_true", help="retire no key")
        parser.add_argument("--batch", type=int, default=100, help="rows between two lines in the audit log")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["print_key"]:
            self.stdout.write(base64.b64encode(os.urandom(32)).decode())
            return
        if options["batch"] < 1:
            raise CommandError("--batch must be at least 1.")
        try:
            outcome = self._rotate(options)
        except ArchwayError as error:
            raise CommandError(f"{error.sentence()} What was moved stays moved; run this again to go on.") from error
        if options["as_json"]:
            print_json(_as_json(outcome))
        else:
            self._tell(outcome)
        if not outcome.complete:
            raise CommandError("Some rows could not be moved; their keys were not retired.")

    def _rotate(self, options: dict[str, Any]) -> rotation.Outcome:
        generated = keyring.uses_generated_key()
        if options["new_key"]:
            if not generated:
                raise CommandError(
                    "The master key is not a generated one. Put the new key where the old one is configured (first "
                    "line of the key file, or another address with the old one in ARCHWAY_MASTER_KEY_OLD), then run "
                    "this without --new-key."
                )
            locations.add_master_key(settings.DATA_DIR)
        progress: list[Progress] = []

        def show(outcome: rotation.Outcome) -> None:
            if not progress:
                progress.append(Progress(outcome.total, "Sealing anew"))
            progress[0].at(outcome.resealed + len(outcome.left))

        outcome = rotation.rotate(
            batch=options["batch"], everything=options["all"], retire=not options["keep_old"], on_progress=show
        )
        for bar in progress:
            bar.end()
        if generated and outcome.complete and not options["keep_old"]:
            locations.drop_old_master_keys(settings.DATA_DIR)
        return outcome

    def _tell(self, outcome: rotation.Outcome) -> None:
        self.stdout.write(f"{outcome.resealed} of {outcome.total} sealed anew and verified under {outcome.key_id}.")
        for key_id in outcome.retired:
            self.stdout.write(f"Retired: {key_id}. Take it out of the configuration.")
        for label, pk, code in outcome.left:
            self.stderr.write(f"Not moved: {label} {pk} ({code})")


def _as_json(outcome: rotation.Outcome) -> dict[str, Any]:
    return {
        "key": outcome.key_id,
        "total": outcome.total,
        "resealed": outcome.resealed,
        "retired": outcome.retired,
        "left": [{"model": label, "id": pk, "code": code} for label, pk, code in outcome.left],
    }
