"""`manage.py keys create|list|revoke`: API keys from the shell."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from portal.kernel import keys
from portal.kernel.command_line import principal_for, print_json
from portal.kernel.errors import ArchwayError
from portal.kernel.models import ApiKey


class Command(BaseCommand):
    help = "Creates, lists and revokes API keys."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create")
        create.add_argument("name")
        create.add_argument("--scopes", default="kb:read", help="comma-separated")
        create.add_argument("--days", type=int, default=90)
        revoke = verbs.add_parser("revoke")
        revoke.add_argument("uid")
        for verb in (create, revoke, verbs.add_parser("list")):
            verb.add_argument("--as", dest="username", help="the key's owner (default: an admin of the workspace)")
            verb.add_argument("--workspace")
            verb.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        principal = principal_for(options["username"], options["workspace"])
        try:
            getattr(self, f"_{options['verb']}")(principal, options)
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error

    def _create(self, principal: Any, options: dict[str, Any]) -> None:
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        key, secret = keys.create(
            principal, name=options["name"], scopes=scopes, expires_at=timezone.now() + timedelta(days=options["days"])
        )
        if options["as_json"]:
            print_json({**_row(key), "secret": secret})
        else:
            self.stdout.write(f"{secret}\nCopy it now: it can not be shown again. Id: {key.uid}")

    def _list(self, principal: Any, options: dict[str, Any]) -> None:
        rows = [_row(key) for key in ApiKey.objects.filter(keys.visible_keys(principal)).order_by("id")]
        if options["as_json"]:
            print_json({"keys": rows})
            return
        for row in rows:
            self.stdout.write(
                f"{row['uid']}  {row['prefix']}…  {row['state']:<8} {','.join(row['scopes'])}  {row['name']}"
            )

    def _revoke(self, principal: Any, options: dict[str, Any]) -> None:
        key = ApiKey.objects.filter(keys.visible_keys(principal), uid=options["uid"]).first()
        if key is None:
            raise CommandError(f"There is no key {options['uid']!r}.")
        keys.revoke(principal, key)
        if options["as_json"]:
            print_json({"uid": key.uid, "state": "revoked"})
        else:
            self.stdout.write(f"{key.prefix}… is revoked.")


def _row(key: ApiKey) -> dict[str, Any]:
    expired = key.expires_at is not None and key.expires_at < timezone.now()
    return {
        "uid": key.uid,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": key.scopes,
        "state": "revoked" if key.revoked_at else "expired" if expired else "active",
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "last_used_at": key.last_used_at.isoformat() if key.last_used_at else None,
    }
