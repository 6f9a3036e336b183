"""`manage.py demo_model`: makes the endpoints of the demo model that `up --with-demo-model` runs."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from portal.gateway.endpoints import ensure_demo_endpoints


class Command(BaseCommand):
    help = "Makes the endpoints of the demo model, which answers by rule and needs no key."

    def handle(self, *args: Any, **options: Any) -> None:
        for endpoint in ensure_demo_endpoints():
            self.stdout.write(f"{endpoint.get_kind_display()}: {endpoint.name}")
