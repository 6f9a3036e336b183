"""How a model behaves is written in its name: `demo+ttft=300+gap=40+tokens=200`.

| option | meaning |
|---|---|
| `ttft=MS`, `gap=MS` | time to the first token, and between two tokens |
| `tokens=N` | an answer of exactly N tokens |
| `reasoning=N` | N deltas of reasoning before the answer |
| `tools=N` | N tool calls, of the tools in the request |
| `echo` | the answer is the last message |
| `cited=N` | answers cite up to N passages of the prompt (2 unless told otherwise) |
| `cached=N` | so many of the prompt's tokens came from the provider's cache |
| `nousage` | the answer does not say what it cost |
| `finish=length` | why the answer ends |
| `fail=401\\|402\\|403\\|404\\|429\\|500…` | the request is refused; 402 is OpenAI's "insufficient_quota" |
| `after=S` | the refusal carries `Retry-After: S` |
| `times=N` | only the first N requests for this very name are refused, the rest is answered |
| `cut=N` | the connection is cut after N tokens |
| `stall=N` | silence after N tokens, for ever |
| `hang` | no answer at all, for ever |
| `badjson`, `html` | the body is broken JSON, or a proxy's page |
| `tag=WORD` | nothing; tells two otherwise equal models apart |
"""

from __future__ import annotations

from dataclasses import dataclass

NAME = "demo"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one request will meet. Times are in seconds."""

    ttft: float = 0.0
    gap: float = 0.0
    tokens: int | None = None
    reasoning: int = 0
    tools: int | None = None
    echo: bool = False
    cited: int = 2
    cached: int = 0
    nousage: bool = False
    finish: str = ""
    fail: int = 0
    after: str = ""
    times: int | None = None
    cut: int | None = None
    stall: int | None = None
    hang: bool = False
    badjson: bool = False
    html: bool = False


_COUNTS = frozenset({"tokens", "reasoning", "tools", "cited", "cached", "fail", "times", "cut", "stall"})
_MILLISECONDS = frozenset({"ttft", "gap"})
_WORDS = frozenset({"finish", "after"})
_FLAGS = frozenset({"echo", "nousage", "hang", "badjson", "html"})


def read(name: str) -> Behaviour | None:
    """The behaviour in a model's name; None when there is no such model."""
    first, *options = name.rpartition("/")[2].split("+")
    if first != NAME:
        return None
    values: dict[str, object] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key in _COUNTS and value.isdigit():
            values[key] = int(value)
        elif key in _MILLISECONDS and value.isdigit():
            values[key] = int(value) / 1000
        elif key in _WORDS and value:
            values[key] = value
        elif key in _FLAGS and not value:
            values[key] = True
        elif key != "tag":
            return None
    return Behaviour(**values)  # type: ignore[arg-type]  # each key was checked against its kind above
