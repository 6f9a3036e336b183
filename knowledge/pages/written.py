"""A model's answer on a page: Markdown without links or pictures, its citations as links to the passages they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from knowledge.answering.records import OPEN
from knowledge.models import QueryRecord
from knowledge.pages import passages
from knowledge.pages.rendering import sanitised

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

State = QueryRecord.Answering
_MARK = re.compile(r"\[(\d{1,3})\]")
# The question above is a heading of level two.
_DEEPER = 2


@dataclass(frozen=True, slots=True)
class Written:
    """An answer as it is shown: `html` is safe, `message` says why it is not whole, `outside` that text left for it."""

    state: str
    html: SafeString
    text: str
    model: str
    demo: bool
    message: str
    outside: bool

    @property
    def is_open(self) -> bool:
        """Whether it is still being written."""
        return self.state in OPEN


def written(answer: Mapping[str, Any], state: str, cards: list[passages.Card]) -> Written | None:
    """The answer of a record or of the moment; None for a direct one."""
    if not state:
        return None
    text = str(answer.get("text", "")) if state not in (*OPEN, State.FAILED) else ""
    return Written(
        state=state,
        html=as_html(text, {int(card.hit["rank"]): card for card in cards}),
        text=text,
        model=str(answer.get("model", "")),
        demo=bool(answer.get("demo")),
        message=str(answer.get("message", "")),
        outside=any(warning["code"] == "text_left_house" for warning in answer.get("warnings", ())),
    )


def as_html(text: str, cards: Mapping[int, passages.Card]) -> SafeString:
    """Markdown as HTML; `[n]` becomes a link where there is a passage `n`, and is left as it stands elsewhere."""
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + _DEEPER, 6)}"
        if token.children:
            token.children = [part for child in token.children for part in _cited(child, cards)]
    return sanitised(parser.renderer.render(tokens, parser.options, {}))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    # A model's links lead where a document wanted them to; what is left of them is text.
    return parser.disable(["image", "link", "autolink", "html_inline", "html_block", "reference"])


def _cited(token: Token, cards: Mapping[int, passages.Card]) -> list[Token]:
    if token.type != "text" or not _MARK.search(token.content):
        return [token]
    found = []
    position = 0
    for match in _MARK.finditer(token.content):
        card = cards.get(int(match.group(1)))
        if card is None:
            continue
        found.append(_of("text", token.content[position : match.start()]))
        found.append(_of("html_inline", _link(card)))
        position = match.end()
    found.append(_of("text", token.content[position:]))
    return [part for part in found if part.content]


def _of(kind: str, content: str) -> Token:
    from markdown_it.token import Token

    return Token(kind, "", 0, content=content)


def _link(card: passages.Card) -> str:
    number = card.hit["rank"]
    if not card.available:
        return f"[{number}]"
    words = {"n": number, "name": card.hit["document_name"], "page": card.hit["page"]}
    name = gettext("Citation %(n)s, %(name)s page %(page)s") if words["page"] else gettext("Citation %(n)s, %(name)s")
    address, label = escape(str(card.hit["citation"])), escape(name % words)
    return f'<a class="citation" href="{address}" aria-label="{label}">[{number}]</a>'
