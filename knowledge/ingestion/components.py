"""LlamaIndex components of our own, and how passages become nodes and nodes passages again.

`TransformComponent`s rather than `NodeParser`s: a NodeParser searches for each node's text to set its
offsets and so moves those of repeated text. Ids, offsets and parents are ours; nothing is hashed
(`as_related_node_info` hashes a node's whole text each time it is asked).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from llama_index.core.schema import (
    BaseNode,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)

from knowledge.ingestion.blocks import ParsedDocument, Source
from knowledge.ingestion.split import SMART, Leaf, Passage, SplitSettings, split
from portal.gateway.protocols import Vectors

_TUPLES = ("heading_path", "questions")


class ParseTransformation(TransformComponent):
    """Source nodes (`source_node`) to document nodes, by the parse function that is handed in."""

    parse: Callable[[Source], ParsedDocument]

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        return [
            document_node(self.parse(node.metadata["source"]), title=node.metadata["source"].name) for node in nodes
        ]


class SplitTransformation(TransformComponent):
    """Document nodes to the nodes of their passages and leaves. Raises what `split` raises."""

    counter: Any  # TokenCounter; pydantic can not check protocols with fields
    settings: SplitSettings = SMART
    on_progress: Callable[[int, int], None] = lambda done, total: None  # characters

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[BaseNode]:
        made: list[BaseNode] = []
        for node in nodes:
            document = node.metadata["document"]
            for passage in split(document, self.counter, self.settings, self.on_progress):
                self.on_progress(passage.end, len(document.text))
                made.extend(nodes_of([passage], document_id=node.id_))
        return made


class EmbedTransformation(TransformComponent):
    """Gives each node that has text its vector: `batch` texts a request, progress after each.

    Raises `Unavailable` when the model is away; nodes done so far keep their vectors.
    """

    embedder: Any  # Embedder
    batch: int = 64
    on_progress: Callable[[int, int], None] | None = None

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        waiting = [node for node in nodes if isinstance(node, TextNode) and node.text.strip()]
        for first in range(0, len(waiting), self.batch):
            members = waiting[first : first + self.batch]
            vectors = self.embedder.embed_passages([node.text for node in members])
            for node, vector in zip(members, vectors, strict=True):
                node.embedding = vector.tolist()
            if self.on_progress is not None:
                self.on_progress(first + len(members), len(waiting))
        return nodes


def source_node(source: Source) -> TextNode:
    """A node that stands for a file to parse."""
    return TextNode(id_=f"source:{source.name}", text="", metadata={"source": source})


def document_node(document: ParsedDocument, *, title: str = "") -> TextNode:
    """A node that carries a parsed document; its text stays in the document, not twice."""
    name = title or document.title
    return TextNode(id_=f"document:{name}", text="", metadata={"document": document, "title": name})


def text_nodes(texts: Iterable[str]) -> list[TextNode]:
    """One node a text, in order."""
    return [TextNode(id_=f"text:{number}", text=text) for number, text in enumerate(texts)]


def nodes_of(passages: Iterable[Passage], *, document_id: str) -> list[TextNode]:
    """Each passage's node followed by those of its leaves; leaves name their passage as parent."""
    source = RelatedNodeInfo(node_id=document_id, node_type=ObjectType.DOCUMENT)
    nodes = []
    for passage in passages:
        key = f"{document_id}:{passage.ordinal}"
        parent = RelatedNodeInfo(node_id=key, node_type=ObjectType.TEXT)
        nodes.append(_node(key, passage, "passage", {NodeRelationship.SOURCE: source}))
        for leaf in passage.leaves:
            relations = {NodeRelationship.SOURCE: source, NodeRelationship.PARENT: parent}
            nodes.append(_node(f"{key}:{leaf.ordinal}", leaf, "leaf", relations))
    return nodes


def passages_of(nodes: Iterable[BaseNode]) -> tuple[Passage, ...]:
    """The opposite of `nodes_of`, for nodes in its order."""
    passages: list[tuple[dict[str, Any], list[Leaf]]] = []
    for node in nodes:
        assert isinstance(node, TextNode)
        values = {name: value for name, value in node.metadata.items() if name != "level"}
        values |= {"text": node.text, "start": node.start_char_idx, "end": node.end_char_idx}
        if node.metadata["level"] == "leaf":
            passages[-1][1].append(Leaf(**values))
        else:
            values |= {name: tuple(values[name]) for name in _TUPLES}
            passages.append((values, []))
    return tuple(Passage(**values, leaves=tuple(leaves)) for values, leaves in passages)


def vectors_of(nodes: Sequence[BaseNode], dimensions: int) -> Vectors:
    """The nodes' vectors, float32 of shape (len(nodes), dimensions); zeros where a node has no text."""
    vectors = np.zeros((len(nodes), dimensions), dtype=np.float32)
    for row, node in enumerate(nodes):
        if node.embedding is not None:
            vectors[row] = node.embedding
    return vectors


def _node(key: str, part: Passage | Leaf, level: str, relationships: dict[Any, Any]) -> TextNode:
    metadata: dict[str, Any] = {
        "level": level,
        "ordinal": part.ordinal,
        "token_count": part.token_count,
        "prefix": part.prefix,
        "suffix": part.suffix,
    }
    if isinstance(part, Passage):
        metadata |= {
            "heading_path": part.heading_path,
            "page": part.page,
            "sheet": part.sheet,
            "rows": part.rows,
            "slide": part.slide,
            "questions": part.questions,
        }
    return TextNode(
        id_=key,
        text=part.text,
        start_char_idx=part.start,
        end_char_idx=part.end,
        metadata=metadata,
        relationships=relationships,
    )
