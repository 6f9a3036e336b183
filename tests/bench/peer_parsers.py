"""A peer of ours behind a pipe: `PEER_PYTHON tests/bench/peer_parsers.py pdfplumber|markitdown`.

Reads one path a line; answers each with one line of JSON, `{"seconds", "characters", "error"}`. The library is
imported and has read one file before the first answer, so that only the reading of a file is timed.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable


def reader(name: str) -> Callable[[str], str]:
    """The peer's way from a path to text."""
    if name == "pdfplumber":
        import pdfplumber  # type: ignore[import-not-found, unused-ignore]

        def plumb(path: str) -> str:
            with pdfplumber.open(path) as document:
                return "\n".join(page.extract_text() or "" for page in document.pages)

        return plumb
    from markitdown import MarkItDown  # type: ignore[import-not-found, unused-ignore]

    converter = MarkItDown()
    return lambda path: str(converter.convert(path).text_content)


def main(name: str) -> None:
    read = reader(name)
    warm = True
    for line in sys.stdin:
        started = time.perf_counter()
        answer: dict[str, object] = {"error": ""}
        try:
            answer["characters"] = len(read(line.strip()))
        except Exception as error:  # noqa: BLE001 - outermost edge: a peer may fail in any way
            answer["error"] = type(error).__name__
        answer["seconds"] = time.perf_counter() - started
        if warm:  # the first file pays for what is loaded on first use; it is read again
            warm = False
            started = time.perf_counter()
            with contextlib.suppress(Exception):
                read(line.strip())
            answer["seconds"] = time.perf_counter() - started
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
