"""Answers that a chat model writes from passages: prompts, citations, writing, and following one live."""
