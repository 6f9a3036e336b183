"""How a retrieval came about, step by step, for people who tune it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Step:
    """One timed step; its `detail` is filled while it runs."""

    name: str
    milliseconds: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Trace:
    """Collects steps and warnings of one retrieval."""

    began: float = field(default_factory=time.perf_counter)
    steps: list[Step] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Time the body; what it puts into the yielded dictionary becomes the step's detail."""
        step = Step(name)
        self.steps.append(step)
        began = time.perf_counter()
        try:
            yield step.detail
        finally:
            step.milliseconds = (time.perf_counter() - began) * 1000

    def warn(self, code: str, message: str) -> None:
        """Note something the asker should know; the same code only once."""
        if all(warning["code"] != code for warning in self.warnings):
            self.warnings.append({"code": code, "message": message})

    @property
    def milliseconds(self) -> float:
        """Since the retrieval began."""
        return (time.perf_counter() - self.began) * 1000

    def as_json(self) -> list[dict[str, Any]]:
        """The steps, milliseconds to a hundredth."""
        return [
            {"name": step.name, "milliseconds": round(step.milliseconds, 2), "detail": step.detail}
            for step in self.steps
        ]
