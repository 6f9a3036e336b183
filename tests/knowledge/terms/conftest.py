"""The small library of the retrieval tests."""

from tests.knowledge.retrieval.conftest import library, local_model

__all__ = ["library", "local_model"]
