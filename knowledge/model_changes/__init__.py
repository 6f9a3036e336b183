"""Changing a base's embedding model while it is searched: embed beside, switch in one transaction, drop what was."""

from knowledge.model_changes.running import work
from knowledge.model_changes.starting import cancel, current, last, may_leave_house, start
from knowledge.model_changes.vectors import bases_with_vectors_of, drop_leftovers

__all__ = ["bases_with_vectors_of", "cancel", "current", "drop_leftovers", "last", "may_leave_house", "start", "work"]
