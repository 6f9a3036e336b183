"""The one way to search: `retrieve(principal, request)`, behind page, API, agent tool, MCP and IM alike."""

from knowledge.retrieval.contract import MODES, Filters, Hit, Mode, Part, RetrievalRequest, RetrievalResult
from knowledge.retrieval.search import retrieve

__all__ = ["MODES", "Filters", "Hit", "Mode", "Part", "RetrievalRequest", "RetrievalResult", "retrieve"]
