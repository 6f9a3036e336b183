"""`manage.py seed`: the sample workspace with its people, grants and documents."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils.translation import gettext as _

from portal.embedded import locations
from portal.seed import sample_logins, seed


class Command(BaseCommand):
    help = "Makes the sample workspace (if it is not there) and prints how to sign in."

    def handle(self, *args: Any, **options: Any) -> None:
        seed()
        self.stdout.write(_("Sign in as one of the sample people:"))
        for name, password in sample_logins().items():
            # Passwords are for people at a terminal; what goes elsewhere ends in a log (`up` reads the file itself).
            shown = password if self.stdout.isatty() else locations.sample_logins_file()
            self.stdout.write(f"  {name:<10} {shown}")
