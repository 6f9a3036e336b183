"""Answers used again: a question that means the same, of the same person, from the same knowledge."""
