"""How well a base answers: its evaluation set, runs over it, the gate before changes, questions left unanswered."""

from knowledge.quality.runs import work
from knowledge.quality.trials import drop_leftovers

__all__ = ["drop_leftovers", "work"]
