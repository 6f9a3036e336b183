"""The tables of chunks and vectors as a LlamaIndex vector store, the sink of the ingestion pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from pydantic import PrivateAttr

from knowledge.ingestion import store
from knowledge.models import Revision
from portal.gateway.models import EmbeddingSpace
from portal.kernel.errors import Denied


class ChunkStore(BasePydanticVectorStore):
    """Writes the embeddings of one claimed revision. A node's id is the id of its leaf.

    It can not be searched: a search needs an asker, and there is one door for that, `knowledge.retrieval.retrieve`.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    _revision: Revision = PrivateAttr()
    _claim_no: int = PrivateAttr()
    _space: EmbeddingSpace = PrivateAttr()

    def __init__(self, revision: Revision, claim_no: int, space: EmbeddingSpace) -> None:
        super().__init__(stores_text=True)
        self._revision, self._claim_no, self._space = revision, claim_no, space

    @classmethod
    def class_name(cls) -> str:
        return "ArchwayChunkStore"

    @property
    def client(self) -> Any:
        """There is no client object: rows go through Django's connection."""
        return None

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store the nodes' embeddings under the claim. Raises `Conflict(code="claim_lost")`."""
        if nodes:
            vectors = np.asarray([node.get_embedding() for node in nodes], dtype=np.float32)
            ids = [int(node.node_id) for node in nodes]
            store.write_vectors(self._revision, self._claim_no, self._space, ids, vectors)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the chunks of a revision, named by its primary key."""
        store.drop_chunks(int(ref_doc_id))

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Always raises `Denied`: nobody searches without saying who asks."""
        raise Denied("This store is searched through the retrieval of the portal only.")
