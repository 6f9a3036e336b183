"""How a retrieval came about, step by step, for people who tune it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Step:
    """One timed step, as a context; its `detail` is filled while it runs. What has to be done again is timed anew."""

    name: str
    milliseconds: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0

    def __enter__(self) -> dict[str, Any]:
        self.began = time.perf_counter()
        return self.detail

    def __exit__(self, *error: object) -> None:
        self.milliseconds = (time.perf_counter() - self.began) * 1000


@dataclass(slots=True)
class Trace:
    """Collects steps and warnings of one retrieval."""

    began: float = field(default_factory=time.perf_counter)
    steps: list[Step] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)

    def step(self, name: str) -> Step:
        """Time the body; what it puts into the yielded dictionary becomes the step's detail.

        The step's place among the others is that of this call, whenever the body runs.
        """
        step = Step(name)
        self.steps.append(step)
        return step

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
