"""Speed of our PDF reader, child process included, beside the same code in-process and beside two peers.

    python tests/bench/parsers.py FOLDER [--peer-python PYTHON] [--rounds 5] [--json]

FOLDER holds PDF files. PYTHON is an interpreter that has `pdfplumber` and `markitdown[pdf]`; without it only
our own figures are taken. In every round each file is read by ours in the child and in-process, one after the other,
the order turned round each time; then each file by the peers. A busy moment of the machine so strikes all alike, and no
peer's 20 to 50 ms stand between two files of ours. A file's figure is the median of its rounds.
Files that we refuse (passwords, damage, no text) are left out for everybody. Our times run from the stored file to
the finished document in the worker; the peers' are those of a warm process without a child of its own.
Bars: pages a second at least 5 times a peer's; median of the files at most 60 ms; at most 10 % over in-process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.finishing import finished
from knowledge.ingestion.parsers import parser_for
from knowledge.ingestion.sandbox import parse_file
from portal.kernel.errors import ParseError

MIME = "application/pdf"
GROUP = "bench"  # one person brings all files into one base, as in an upload of many
PEERS = ("pdfplumber", "markitdown")
Reader = Callable[[Path], float]


def in_child(path: Path) -> float:
    """Seconds from the stored file to the document, as ingestion reads it."""
    started = time.perf_counter()
    parse_file(Source(path, path.name, MIME), group=GROUP)
    return time.perf_counter() - started


def in_process(path: Path) -> float:
    """Seconds of the same code without a child."""
    started = time.perf_counter()
    document(path)
    return time.perf_counter() - started


def document(path: Path) -> ParsedDocument:
    context = ParseContext()
    return finished(parser_for(MIME)(Source(path, path.name, MIME), context), context)


class Peer:
    """A peer in a process of its own; `seconds` asks it to read a file."""

    def __init__(self, python: str, name: str) -> None:
        script = Path(__file__).with_name("peer_parsers.py")
        self.failed: set[str] = set()
        self._process = subprocess.Popen(
            [python, str(script), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, path: Path) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{path.resolve()}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["error"]:
            self.failed.add(path.name)
        return float(answer["seconds"])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def pages_of(folder: Path) -> dict[Path, int]:
    """The files that we read, each with its number of pages; reading them here warms the parent's own code."""
    found: dict[Path, int] = {}
    for path in sorted(folder.glob("*.pdf")):
        try:
            parse_file(Source(path, path.name, MIME), group=GROUP)
            found[path] = document(path).page_count or 1
        except ParseError:
            continue
    return found


def measure(files: list[Path], readers: dict[str, Reader], rounds: int) -> dict[str, dict[Path, float]]:
    """Median seconds of each file by reader."""
    taken: dict[str, dict[Path, list[float]]] = {name: {path: [] for path in files} for name in readers}
    ours = [name for name in readers if name not in PEERS]
    for number in range(rounds):
        for group in (ours, [name for name in readers if name in PEERS]):
            for path in files:
                for name in group if number % 2 == 0 else reversed(group):
                    taken[name][path].append(readers[name](path))
    return {name: {path: statistics.median(times) for path, times in rows.items()} for name, rows in taken.items()}


def summary(pages: dict[Path, int], medians: dict[str, dict[Path, float]]) -> dict[str, Any]:
    total = sum(pages.values())
    rows = {
        name: {
            "pages_per_second": round(total / sum(times.values()), 1),
            "median_ms": round(1000 * statistics.median(times.values()), 1),
            "seconds": round(sum(times.values()), 3),
        }
        for name, times in medians.items()
    }
    child = rows["child"]
    return {
        "files": len(pages),
        "pages": total,
        "rows": rows,
        "times_faster": {
            name: round(child["pages_per_second"] / row["pages_per_second"], 1)
            for name, row in rows.items()
            if name in PEERS
        },
        "over_in_process_percent": round(100 * (child["seconds"] / rows["in-process"]["seconds"] - 1), 1),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--peer-python", default="")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()

    pages = pages_of(options.folder)
    peers = {name: Peer(options.peer_python, name) for name in PEERS} if options.peer_python else {}
    readers: dict[str, Reader] = {
        "child": in_child,
        "in-process": in_process,
        **{name: peer.seconds for name, peer in peers.items()},
    }
    result = summary(pages, measure(list(pages), readers, options.rounds))
    result["not_read_by"] = {name: sorted(peer.failed) for name, peer in peers.items()}
    for peer in peers.values():
        peer.close()
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['files']} files, {result['pages']} pages, {options.rounds} rounds")
    for name, row in result["rows"].items():
        print(f"{name:12} {row['pages_per_second']:7.1f} pages/s  median {row['median_ms']:7.1f} ms a file")
    print(f"times faster: {result['times_faster']}; over in-process: {result['over_in_process_percent']} %")


if __name__ == "__main__":
    main()
