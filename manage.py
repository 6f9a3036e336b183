#!/usr/bin/env python
"""Archway's command line: `python manage.py help` lists the commands."""

import os
import sys

# Commands that work without servers, or start or judge them.
_SERVERLESS = {"up", "doctor", "check", "help", "parse", "makemigrations", "compilemessages", "catalogue", "version"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "help")
    if command not in _SERVERLESS and not {"-h", "--help"} & set(sys.argv):
        _require_servers()
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


def _require_servers() -> None:
    """Fail at once, with the advice to start them, when the embedded servers are down."""
    from portal.embedded import locations
    from portal.kernel.errors import Unavailable

    try:
        locations.require_servers()
    except Unavailable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
