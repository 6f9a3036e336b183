"""`manage.py up`: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
import time
from argparse import ArgumentParser
from pathlib import Path
from socket import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _

from portal.embedded import locations, stack
from portal.embedded.servers import FolderLock
from portal.embedded.supervisor import StopRequested, Supervisor, run_to_end
from portal.kernel.errors import ArchwayError, Conflict

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
WEB_SECONDS = 120


class Command(BaseCommand):
    help = "Starts the servers that no URL names, migrates, seeds, and runs web and workers until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=os.environ.get("ARCHWAY_HOST") or DEFAULT_HOST)
        parser.add_argument("--port", type=int, default=os.environ.get("ARCHWAY_PORT") or str(DEFAULT_PORT))
        parser.add_argument("--no-seed", action="store_true", help="do not make the sample workspace")

        parser.add_argument(
            "--with-demo-model",
            action="store_true",
            help="also run the demo model, which answers by rule and needs no key",
        )

    def handle(
        self, *args: Any, host: str, port: int, no_seed: bool, with_demo_model: bool = False, **options: Any
    ) -> None:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
        folder = locations.data_dir()
        try:
            lock = FolderLock(folder)
        except Conflict as error:
            raise CommandError(_already_running(error)) from error
        screen = _Screen(self.stdout.isatty())
        try:
            with Supervisor(locations.log_dir(), screen.say, screen.line) as supervisor:
                _Run(supervisor, screen, folder).go(
                    host, port, seed=not (no_seed or settings.PRODUCTION), demo_model=with_demo_model
                )
        except StopRequested:
            screen.say(_("Stopped."))
        except ArchwayError as error:
            raise CommandError(error.sentence()) from error
        finally:
            locations.up_record_file().unlink(missing_ok=True)
            locations.embedding_url_file().unlink(missing_ok=True)
            locations.demo_model_url_file().unlink(missing_ok=True)
            lock.release()


class _Run:
    """One run of `up`, step by step."""

    def __init__(self, supervisor: Supervisor, screen: _Screen, folder: Path) -> None:
        self.supervisor = supervisor
        self.screen = screen
        self.folder = folder
        self.began = time.monotonic()

    def go(self, host: str, port: int, *, seed: bool, demo_model: bool) -> None:
        servers = stack.servers(self.folder)
        names = ", ".join(service.program.name for service in servers)
        self.screen.say(_("Starting Archway in %(folder)s %(names)s") % {"folder": self.folder, "names": f"({names})"})
        self.supervisor.start(*servers)
        self._run("migrate", "--noinput", "--verbosity", "0")
        listener = stack.listen(host, port)
        url = _url(listener)
        self.supervisor.start(*stack.application(listener))
        if demo_model:
            self.supervisor.start(stack.demo_model())
            self._run("demo_model")
            self.screen.say(_("The demo model answers by rule and understands nothing; its answers say so."))
        _record(url)
        # While web and workers come up, which takes longer.
        login = self._seed() if seed else []
        waiting = threading.Thread(target=self._announce_when_ready, args=(listener, url, login), daemon=True)
        waiting.start()
        self.supervisor.run()

    def _run(self, *command: str) -> None:
        run_to_end(stack.command(*command), locations.log_dir(), self.screen.line)

    def _seed(self) -> list[str]:
        """Makes the sample workspace and returns how to sign in. Everything else works without it."""
        try:
            self._run("seed")
            logins: dict[str, str] = json.loads(locations.sample_logins_file().read_text("utf-8"))
        except (ArchwayError, OSError, ValueError) as error:
            self.screen.say(_("There is no sample workspace: %(reason)s") % {"reason": error})
            return []
        return [_("Sign in as:"), *(f"  {name:<12} {password}" for name, password in logins.items())]

    def _announce_when_ready(self, listener: socket, url: str, login: list[str]) -> None:
        host, port = listener.getsockname()[:2]
        # The supervisor's own socket queues the request until the web process takes it: no polling.
        connection = http.client.HTTPConnection(_reachable(host), port, timeout=WEB_SECONDS)
        try:
            connection.request("GET", "/healthz", headers={"Host": f"127.0.0.1:{port}"})
            connection.getresponse().read()
        except OSError:
            waited = _("The web process does not answer yet; see %(log)s.") % {"log": locations.log_dir() / "web.log"}
            self.supervisor.call_soon(lambda: self.screen.say(waited))
            return
        finally:
            connection.close()
        self.supervisor.call_soon(lambda: self.screen.summary(url, login, time.monotonic() - self.began, self.folder))


class _Screen:
    """What a person sees. Children's lines show once the summary is out; before that they only go to the logs."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour and "NO_COLOR" not in os.environ
        self._open = False
        self._writing = threading.Lock()

    def say(self, text: str) -> None:
        self._write(text)

    def line(self, name: str, line: str) -> None:
        if self._open:
            prefix = f"{name:>13} |"
            self._write(f"\x1b[36m{prefix}\x1b[0m {line}" if self._colour else f"{prefix} {line}")

    def summary(self, url: str, login: list[str], seconds: float, folder: Path) -> None:
        rows = [
            "",
            _("  Archway is ready after %(seconds).1f s.") % {"seconds": seconds},
            "",
            f"  {url}",
            *(f"  {row}" for row in login),
            "",
            _("  Data and logs: %(folder)s. Ctrl-C stops everything.") % {"folder": folder},
            "",
        ]
        self._write("\n".join(rows))
        self._open = True

    def _write(self, text: str) -> None:
        with self._writing:
            try:
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
            except (OSError, ValueError):  # nobody reads any more; the logs have it
                self._open = False


def _record(url: str) -> None:
    path = locations.up_record_file()
    locations.private_folder(path.parent)
    path.write_text(json.dumps({"pid": os.getpid(), "url": url}), "utf-8")


def _already_running(error: Conflict) -> str:
    try:
        record = json.loads(locations.up_record_file().read_text("utf-8"))
    except (OSError, ValueError):  # it is still starting
        return error.sentence()
    return _("%(sentence)s Open %(url)s (process %(pid)s).") % {"sentence": error.sentence(), **record}


def _url(listener: socket) -> str:
    host, port = listener.getsockname()[:2]
    host = _reachable(host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
