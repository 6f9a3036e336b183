"""`POST /v1/embeddings`: vectors as the model gives them, of length 1."""

from __future__ import annotations

import base64
import re
from typing import Any, Literal

import numpy as np
from django.http import HttpResponseBase, JsonResponse
from pydantic import BaseModel, ConfigDict, Field

from portal.gateway.accounting import Caller
from portal.gateway.embedding import counter_for, plain_embedder_for
from portal.gateway.models import ModelEndpoint, Purpose
from portal.gateway.protocols import Vectors
from portal.openai_api.completion_input import checked
from portal.openai_api.door import Asked, door, on_database
from portal.openai_api.errors import Refused
from portal.openai_api.targets import embedding_target

PURPOSE = Purpose.API_EMBEDDING
MOST_TEXTS = 2048
# Models trained so that the first numbers of a vector are a good shorter one (Matryoshka).
_SHORTENED = re.compile(
    r"text-embedding-3|gemini-embedding|embeddinggemma|qwen3-embedding|jina-embeddings-v[34]|nomic-embed-text-v1\.5"
    r"|mxbai-embed|snowflake-arctic-embed-[lm]-v2",
    re.IGNORECASE,
)


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    model: str = Field(min_length=1, max_length=300)
    input: Any
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(default=None, ge=1)
    # Not OpenAI's: models of two sides tell questions from texts.
    input_type: Literal["passage", "query"] = "passage"


@door("POST", "chat")
async def embeddings(asked: Asked) -> HttpResponseBase:
    """A vector for each text."""
    given = checked(_Body, await asked.json())
    texts = _texts(given.input)
    return await on_database(lambda: _answer(asked, given, texts))


def _answer(asked: Asked, given: _Body, texts: list[str]) -> HttpResponseBase:
    target = embedding_target(asked.principal, given.model)
    embedder = plain_embedder_for(target.row, Caller(asked.principal, PURPOSE))
    counter = counter_for(target.row)
    counts = counter.count(texts)
    if any(count > counter.max_tokens for count in counts):
        raise Refused(
            "A text is longer than the %(most)s tokens that this model reads.",
            param="input",
            code="text_too_long_for_model",
            most=counter.max_tokens,
        )
    ask = embedder.embed_queries if given.input_type == "query" else embedder.embed_passages
    vectors = _shortened(ask(texts), given.dimensions, target.row)
    tokens = sum(counts)
    return JsonResponse(
        {
            "object": "list",
            "model": target.name,
            "data": [
                {"object": "embedding", "index": index, "embedding": _written(vector, given.encoding_format)}
                for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        raise Refused("Send a text, or a list of texts.", param="input")
    if not all(isinstance(text, str) for text in texts):
        # Token numbers are of one model's alphabet, which nobody can turn back for another.
        raise Refused("Send texts, not token numbers.", param="input", code="tokens_not_supported")
    if not all(text.strip() for text in texts):
        raise Refused("A text is empty.", param="input")
    if len(texts) > MOST_TEXTS:
        raise Refused("Send at most %(most)s texts.", param="input", most=MOST_TEXTS)
    return texts


def _shortened(vectors: Vectors, wanted: int | None, row: ModelEndpoint) -> Vectors:
    """The first `wanted` numbers, at length 1 again, where the model was trained for that."""
    width = vectors.shape[1]
    if wanted is None or wanted == width:
        return vectors
    if wanted > width or not _SHORTENED.search(row.model_name):
        raise Refused(
            "This model gives %(width)s dimensions, and no other number.",
            param="dimensions",
            code="dimensions_not_supported",
            width=width,
        )
    part = vectors[:, :wanted]
    lengths = np.linalg.norm(part, axis=1, keepdims=True)
    return np.asarray(part / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def _written(vector: Vectors, encoding: str | None) -> Any:
    if encoding == "base64":
        return base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes()).decode()
    return [float(number) for number in vector]
