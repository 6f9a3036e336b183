"""What a chat model makes of passages in the background: questions that they answer, cases for an evaluation set."""

from knowledge.generation.running import work
from knowledge.generation.starting import Estimate, Wanted, cancel, current, estimate, last, start

__all__ = ["Estimate", "Wanted", "cancel", "current", "estimate", "last", "start", "work"]
