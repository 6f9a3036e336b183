"""`manage.py credentials list|check|reseal|expose|revoke`: stored secrets from the shell; it shows none."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from django.utils import timezone

from portal.kernel.command_line import principal_for, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.models import Credential
from portal.kernel.secrets import verbs, watch

_VERBS = {"reseal": verbs.reseal, "expose": verbs.mark_exposed, "revoke": verbs.revoke}


class Command(BaseCommand):
    help = "Lists, checks, seals anew, marks as exposed and revokes stored secrets; it shows none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = parser.add_subparsers(dest="verb", required=True)
        listing = names.add_parser("list", help="all, or those that need attention")
        listing.add_argument("--attention", action="store_true")
        listing.add_argument("--exposed", action="store_true", help="the checklist after a leak")
        names.add_parser("check", help="open every one and forget it at once")
        for verb in _VERBS:
            changing = names.add_parser(verb)
            changing.add_argument("ids", nargs="*", help="ids or references")
            changing.add_argument("--all", action="store_true")
        for one in names.choices.values():
            one.add_argument("--as", dest="username", help="whose name stands in the audit log (default: the system)")
            one.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, f"_{options['verb']}" if options["verb"] not in _VERBS else "_change")(options)

    def _list(self, options: dict[str, Any]) -> None:
        rows = Credential.objects.defer("ciphertext", "wrapped_key").select_related("workspace").order_by("name", "pk")
        if options["attention"]:
            rows = rows.filter(watch.needs_attention(timezone.now()))
        if options["exposed"]:
            rows = rows.filter(exposed_at__isnull=False, revoked_at__isnull=True)
        found = [_row(row) for row in rows]
        if options["as_json"]:
            print_json({"credentials": found})
            return
        for row in found:
            marks = " ".join(filter(None, (row["state"], row["health"], "exposed" if row["exposed_at"] else "")))
            self.stdout.write(f"{row['id']}  {marks:<24} {row['host']:<32} {row['workspace'] or '—'}: {row['name']}")
        self.stdout.write(f"{len(found)} found.")

    def _check(self, options: dict[str, Any]) -> None:
        found = watch.check_health()
        if options["as_json"]:
            print_json(found)
        else:
            self.stdout.write(f"{found['good']} can be opened, {found['unreadable']} can not.")
        if found["unreadable"]:
            raise CommandError("Some secrets can not be opened: `manage.py credentials list --attention`.")

    def _change(self, options: dict[str, Any]) -> None:
        principal = principal_for(options["username"]) if options["username"] else None
        verb, done, failed = _VERBS[options["verb"]], [], []
        for row in self._chosen(options):
            try:
                verb(principal, row)
                done.append(str(row.pk))
            except ArchwayError as error:
                failed.append({"id": str(row.pk), "code": error.code})
                self.stderr.write(f"{row.name}: {error.sentence()}")
        if options["as_json"]:
            print_json({"done": done, "failed": failed})
        else:
            self.stdout.write(f"{len(done)} done.")
        if failed:
            raise CommandError("Not all could be done.")

    def _chosen(self, options: dict[str, Any]) -> QuerySet[Credential]:
        living = Credential.objects.filter(revoked_at__isnull=True).order_by("name", "pk")
        if options["all"]:
            return living
        if not options["ids"]:
            raise CommandError("Name the credentials by their ids, or say --all.")
        try:
            ids = {UUID(name.removeprefix("credential://")) for name in options["ids"]}
        except ValueError as error:
            raise CommandError("An id is a UUID; see `manage.py credentials list`.") from error
        chosen = living.filter(pk__in=ids)
        if missing := ids - set(chosen.values_list("pk", flat=True)):
            raise CommandError(f"There is no living credential {sorted(map(str, missing))[0]}.")
        return chosen


def _row(row: Credential) -> dict[str, Any]:
    def iso(name: str) -> str | None:
        at = getattr(row, name)
        return at.isoformat() if at else None

    times = ("created_at", "replaced_at", "expires_at", "last_used_at", "exposed_at")
    return {
        "id": str(row.pk),
        "name": row.name,
        "host": row.host,
        "workspace": row.workspace.name if row.workspace else None,
        "state": row.state.value,
        "health": row.health,
        "hint": row.hint,
        "fingerprint": row.fingerprint,
        "key_id": row.key_id,
        **{name: iso(name) for name in times},
    }
