"""The two stages of ingestion in LlamaIndex's frame, without its price where it is not used.

Importing LlamaIndex costs 0.9 s and 94 MB, so the components live in `components` and are imported
at the first call. Stage one is parse + split, stage two is embed + store; each is an
`IngestionPipeline` of our own components without cache and document store (content hashes of our own
do that work), which costs 15 ms for 1,000 nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from knowledge.ingestion.blocks import ParsedDocument, Source
from knowledge.ingestion.split import Passage, SplitMode, SplitSettings, TidyRules
from portal.gateway.protocols import Embedder, TokenCounter, Vectors

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode, TransformComponent


class SplitChoice(Protocol):
    """What a base says about splitting; `SplitSettings` and the base's own settings both fit."""

    @property
    def mode(self) -> SplitMode: ...
    @property
    def passage_tokens(self) -> int: ...
    @property
    def leaf_tokens(self) -> int: ...
    @property
    def overlap_tokens(self) -> int: ...
    @property
    def separators(self) -> Sequence[str]: ...


def split_document(
    document: ParsedDocument, choice: SplitChoice, counter: TokenCounter, *, title: str = ""
) -> tuple[Passage, ...]:
    """The passages of a parsed document, in reading order; empty when it has no text.

    `title` names the document in the nodes. Raises `Invalid` for separators that can not be used.
    """
    from knowledge.ingestion import components

    node = components.document_node(document, title=title)
    split = components.SplitTransformation(counter=counter, settings=settings_of(choice))
    return components.passages_of(run([split], [node]))


def parse_and_split(
    parse: Callable[[Source], ParsedDocument],
    source: Source,
    choice: SplitChoice,
    counter: TokenCounter,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Passage, ...]:
    """The passages of a file: stage one as one pipeline. Raises what `parse` raises, and `Invalid` as above.

    `on_progress` is told of the characters that were split, many times.
    """
    from knowledge.ingestion import components

    stages = [
        components.ParseTransformation(parse=parse),
        components.SplitTransformation(counter=counter, settings=settings_of(choice), on_progress=on_progress),
    ]
    return components.passages_of(run(stages, [components.source_node(source)]))


def embed_texts(
    texts: Sequence[str],
    embedder: Embedder,
    *,
    batch: int = 64,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Vectors:
    """Unit vectors of the texts, float32 of shape (len(texts), dimensions), `batch` texts a request.

    Raises `Unavailable` when the model is away.
    """
    from knowledge.ingestion import components

    nodes = components.text_nodes(texts)
    embed = components.EmbedTransformation(embedder=embedder, batch=batch, on_progress=on_progress)
    return components.vectors_of(run([embed], nodes), embedder.dimensions)


def run(components: Sequence[TransformComponent], nodes: Sequence[BaseNode]) -> Sequence[BaseNode]:
    """The nodes through the components, in one LlamaIndex pipeline without cache or look-ups."""
    from llama_index.core.ingestion import IngestionPipeline

    return IngestionPipeline(transformations=list(components), disable_cache=True).run(nodes=list(nodes))


def settings_of(choice: SplitChoice) -> SplitSettings:
    """The splitter's own settings for a base's choice; what the choice does not know keeps its default."""
    if isinstance(choice, SplitSettings):
        return choice
    return SplitSettings(
        mode=choice.mode,
        passage_tokens=choice.passage_tokens,
        leaf_tokens=choice.leaf_tokens,
        overlap_tokens=choice.overlap_tokens,
        separators=tuple(choice.separators),
        patterns=tuple(getattr(choice, "patterns", ())),
        heading_level=int(getattr(choice, "heading_level", 0)),
        question_column=str(getattr(choice, "question_column", "")),
        answer_column=str(getattr(choice, "answer_column", "")),
    )


def rules_of(choice: SplitChoice) -> TidyRules:
    """The clean-up that a base's choice asks for; none where it does not speak of it."""
    return TidyRules(
        spaces=bool(getattr(choice, "clean_spaces", False)),
        blank_lines=bool(getattr(choice, "clean_blank_lines", False)),
        urls=bool(getattr(choice, "remove_urls", False)),
        emails=bool(getattr(choice, "remove_emails", False)),
        remove=tuple(getattr(choice, "remove_patterns", ())),
    )
