"""Markdown: CommonMark with tables and footnotes, rendered to HTML and walked like any page."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import decode
from knowledge.ingestion.parsers.html import embedded_picture, walk_html
from knowledge.ingestion.parsers.html_walk import Walker

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

MIME = "text/markdown"
_FRONT_MATTER = re.compile(r"---[^\S\n]*\n(.*?\n)?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_TOML_HEAD = re.compile(r"\+\+\+[^\S\n]*\n(.*?\n)?\+\+\+[^\S\n]*(?:\n|\Z)", re.DOTALL)
_TOML_PAIR = re.compile(r"([\w.-]+)\s*=\s*(\S.*)")
# Formulas whose signs mean nothing to Markdown: $…$ (no prices: no space inside, no digit behind), \(…\), \[…\].
_FORMULA = re.compile(r"\$\$[^$]+\$\$|\$(?![\s$])[^$\n]*[^\s$\\]\$(?!\d)|\\\([^\n]+?\\\)|\\\[.+?\\\]", re.DOTALL)
_YAML_LINE = re.compile(r"\s*(?:#.*|-\s.*|-|[\w\"'.$@-]+[^:\n]{0,80}:(?:\s.*)?|[\]}\[{].*)?\Z|\s+\S.*\Z")
_DUNDER = re.compile(r"__[a-z][a-z0-9]*(?:_[a-z0-9]+)*__(?![\w_])")
_PAIR = re.compile(r"([^\s:#][^:]*):\s+(\S.*)")


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Headings, paragraphs, lists, tables, fences (whole), quotes and footnotes; front matter as metadata."""
    decoded = decode(source.read())
    facts, body = front_matter(decoded.text)
    walker = Walker(context, embedded_picture)
    walk_html(renderer().render(body), walker)
    context.progress(1, 1)
    title = facts.get("title", "")
    if not title:
        title = next((block.text for block in walker.blocks if block.kind == "heading"), "")
    return assemble(
        MIME,
        walker.blocks,
        warnings=(*decoded.warnings, *walker.pictures.warnings),
        images=walker.pictures.images,
        title=title,
        metadata={**facts, "encoding": decoded.encoding},
    )


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """The `key: value` lines of a YAML head (or `key = value` of a TOML head, `+++`), and the text after it.

    A text that merely begins with a rule (`---`) has no head: every line must look like YAML.
    """
    toml = _TOML_HEAD.match(text)
    if toml:
        facts = filter(None, map(_TOML_PAIR.fullmatch, map(str.strip, (toml[1] or "").split("\n"))))
        return {fact[1]: fact[2].strip("\"'") for fact in facts}, text[toml.end() :]
    found = _FRONT_MATTER.match(text)
    lines = (found[1] or "").split("\n") if found else []
    if not found or not all(_YAML_LINE.match(line) for line in lines) or not any(map(_PAIR.match, lines)):
        return {}, text
    pairs = [pair for line in lines if (pair := _PAIR.match(line))]
    return {pair[1].strip(): pair[2].strip().strip("\"'") for pair in pairs}, text[found.end() :]


@cache
def renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    markdown: MarkdownIt = MarkdownIt("commonmark", {"html": True, "breaks": True, "maxNesting": 100}).enable(
        ["table", "strikethrough"]
    )
    # `breaks`: people write one fact a line and mean it, whatever CommonMark says about single line ends.
    # Unsafe addresses must not make the link's source appear as text; the walk drops them.
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    markdown.inline.ruler.before("escape", "formula", _formula)
    markdown.inline.ruler.before("emphasis", "product", _product)
    markdown.inline.ruler.before("emphasis", "dunder", _dunder)
    return markdown.use(footnote_plugin)


def _formula(state: StateInline, silent: bool) -> bool:
    """A formula is kept as it is written: its `_`, `*` and backslashes are no Markdown."""
    if state.src[state.pos] not in "$\\":
        return False
    found = _FORMULA.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        for number, line in enumerate(found[0].split("\n")):
            if number:
                state.push("hardbreak", "br", 0)
            state.pending += line
    state.pos = found.end()
    return True


def _product(state: StateInline, silent: bool) -> bool:
    """A lone `*` between ASCII letters or digits is a sign (`2*3*4`, `{{7*7}}`), not emphasis."""
    text, at = state.src, state.pos
    if text[at] != "*" or not 0 < at < len(text) - 1:
        return False
    before, after = text[at - 1], text[at + 1]
    if not (before.isascii() and before.isalnum() and after.isascii() and after.isalnum()):
        return False
    if not silent:
        state.pending += "*"
    state.pos += 1
    return True


def _dunder(state: StateInline, silent: bool) -> bool:
    """`__init__` in running text is a name of Python's, not an emphasised "init"."""
    found = _DUNDER.match(state.src, state.pos)
    if found is None or (state.pos and state.src[state.pos - 1].isalnum()):
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True
