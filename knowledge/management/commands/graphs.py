"""`manage.py graphs`: the graph indexes of embedding spaces; what beat does every five minutes, at once and by hand."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge.retrieval import graphs
from portal.gateway.models import EmbeddingSpace
from portal.kernel.command_line import print_json


class Command(BaseCommand):
    help = (
        "Shows the embedding spaces, how many vectors each holds, and whether it has a graph index. --keep builds and "
        "drops graphs as the spaces have grown; --rebuild KEY builds one anew, --drop KEY takes it away until the next "
        "upkeep. Neither searches nor writers wait."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--keep", action="store_true")
        action.add_argument("--rebuild", metavar="KEY")
        action.add_argument("--drop", metavar="KEY")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(
        self, *args: Any, keep: bool, rebuild: str | None, drop: str | None, as_json: bool, **options: Any
    ) -> None:
        if keep:
            graphs.keep()
        elif rebuild:
            graphs.build(_space(rebuild))
        elif drop:
            graphs.drop(_space(drop))
        rows = [_row(space) for space in EmbeddingSpace.objects.order_by("pk")]
        if as_json:
            print_json({"spaces": rows})
            return
        for row in rows:
            self.stdout.write(f"{row['space']:<60} {row['vectors']:>10} vectors  graph: {row['graph']}")


def _space(key: str) -> EmbeddingSpace:
    space = EmbeddingSpace.objects.filter(key=key).first()
    if space is None:
        raise CommandError(f"There is no embedding space {key!r}; run the command without arguments to see them.")
    return space


def _row(space: EmbeddingSpace) -> dict[str, Any]:
    found = graphs.graph(space)
    state = "none" if found is None else f"{found.size / 1e6:.0f} MB" if found.valid else "unfinished"
    return {"space": space.key, "vectors": graphs.vectors_of(space), "graph": state}
