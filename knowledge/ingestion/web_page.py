"""The main content of a page of the web, as clean HTML that the HTML parser reads later.

Only what frames the content is taken away: headings, tables, lists and code stay what they were. Measured against
trafilatura's own output in `docs/decisions/0072-main-content.md`; here trafilatura only points at the content when
the page does not say where it is. Runs in the child process for strangers' files (`sandbox.parse_file`), so it knows
no settings, no database and no network.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.html import bounded, decode_html
from portal.kernel.errors import ParseError

Node = Any  # selectolax ships no precise types

ONLY_MAIN = "main"  # the value of `Source.mime` that asks for the main content; any other keeps the whole page
MAX_LINKS = 5_000
_NEVER = "script, style, template, iframe, object, embed, noscript, canvas, svg, audio, video, dialog, form button"
_FRAME = (
    "nav, [role=navigation], [role=banner], [role=contentinfo], [role=search], [role=dialog], [role=alertdialog], "
    "[hidden], [aria-hidden=true]"
)
# Names of what stands around content. Only taken away when its text is mostly links, or short.
_NAMED = re.compile(
    r"(?:^|[\s_-])(?:cookies?|consent|gdpr|breadcrumbs?|side-?bar|toc|share|sharing|social|related|recommend\w*|"
    r"newsletter|subscribe|site-?footer|page-?footer|masthead|nav|navbar|menu|pagination|pager|skip-?link|advert\w*|"
    r"ads?|promo|banner|toolbar|edit-?section|mw-editsection|headerlink|back-?to-?top)(?:$|[\s_-])",
    re.IGNORECASE,
)
_CONTENT = ("main", "[role=main]", "article", "#content", "#main-content", "#mw-content-text", ".markdown-body")
_KEPT_ATTRIBUTES = frozenset(
    {"href", "alt", "title", "colspan", "rowspan", "start", "value", "lang", "scope", "datetime", "reversed", "type"}
)
_CODE_CLASS = re.compile(r"(?:language|lang|highlight|highlight-source|brush:)[-: ]?\s*[\w+#.-]+")
_SPACE = re.compile(r"\s+")
LINKY, SHORT = 0.5, 160  # share of link text, and characters, at which something named like a frame goes
SHELL = 0.15  # a marked content of less than this share of the page's text is no content
COVERED = 0.9  # of what trafilatura found must lie in the element that is taken


@dataclass(frozen=True, slots=True)
class _Found:
    """The element that holds the content, and how it was found."""

    node: Node
    how: str


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """A document whose one block is the clean HTML; `source.name` is the page's address.

    `metadata` holds `text` (what people read, for comparing), `links` (one absolute address a line), `canonical` and
    `how` the content was found. Raises `ParseError` (`page_empty`).
    """
    from selectolax.lexbor import LexborHTMLParser

    decoded = decode_html(source.read())
    tree: Any = LexborHTMLParser(bounded(decoded.text))
    if tree.body is None:
        raise _empty()
    address = _base_address(tree, source.name)
    title, canonical, links = _title(tree), _canonical(tree, address), _links(tree, address)
    language = (tree.root.attributes.get("lang") or "") if tree.root is not None else ""
    found = _main(tree, decoded.text) if source.mime == ONLY_MAIN else _whole(tree)
    heading = _missing_heading(tree, found.node)
    text = _plain(found.node)
    if not text:
        raise _empty()
    _strip_attributes(found.node, urlsplit(source.name).netloc)
    page = _page(title, canonical or source.name, language, heading + (found.node.inner_html or ""))
    return assemble(
        "text/html",
        [Block(kind="paragraph", text=page)],
        title=title or heading,
        metadata={"text": f"{title}\n{text}", "links": "\n".join(links), "canonical": canonical, "how": found.how},
    )


def _empty() -> ParseError:
    return ParseError("This page holds no text; it may need scripts to show any.", code="page_empty")


# -- what the page says of itself --


def _base_address(tree: Any, address: str) -> str:
    node = tree.css_first("base[href]")
    return urljoin(address, (node.attributes.get("href") or "").strip()) if node is not None else address


def _title(tree: Any) -> str:
    for selector in ("title", "h1"):
        node = tree.css_first(selector)
        text = _SPACE.sub(" ", node.text() or "").strip() if node is not None else ""
        if text:
            return text[:300]
    return ""


def _canonical(tree: Any, address: str) -> str:
    node = tree.css_first('link[rel="canonical"][href]')
    return urljoin(address, (node.attributes.get("href") or "").strip()) if node is not None else ""


def _links(tree: Any, address: str) -> list[str]:
    """Where the whole page leads, menus included: a site is found through its menus."""
    found: dict[str, None] = {}
    for node in tree.css("a[href], area[href]"):
        target = (node.attributes.get("href") or "").strip()
        if not target or target.startswith(("#", "javascript:", "mailto:", "tel:", "data:")) or len(target) > 2000:
            continue
        try:
            found[urljoin(address, target)] = None
        except ValueError:  # a bracket that is no IPv6 address
            continue
        if len(found) >= MAX_LINKS:
            break
    return list(found)


# -- where the content is --


def _whole(tree: Any) -> _Found:
    for node in tree.css(_NEVER):
        node.decompose()
    return _Found(tree.body, "whole")


def _main(tree: Any, markup: str) -> _Found:
    for node in tree.css(_NEVER):
        node.decompose()
    body = tree.body
    for node in body.css(_FRAME):
        if not _holds_content(node):
            node.decompose()
    for node in [*body.css("header, footer, aside")]:
        if not _inside(node, {"main", "article"}) and not _holds_content(node):
            node.decompose()
    for node in body.css("[class], [id]"):
        if _is_framing(node):
            node.decompose()
    whole = len(_plain(body))
    for selector in _CONTENT:
        nodes = [node for node in body.css(selector) if not _inside_same(node, selector)]
        if len(nodes) == 1 and len(_plain(nodes[0])) > SHELL * whole:
            return _Found(nodes[0], selector)
    return _pointed_at(body, markup) or _Found(body, "body")


def _holds_content(node: Node) -> bool:
    """Some pages put everything into a header, or hide the whole page until a script has run."""
    return node.css_first("main, article, [role=main]") is not None


def _is_framing(node: Node) -> bool:
    if node.tag in ("html", "body", "main", "article", "pre", "code", "td", "th", "table", "h1"):
        return False
    names = f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"
    if not _NAMED.search(names) or _holds_content(node):
        return False
    text = _plain(node)
    linked = sum(len(_plain(link)) for link in node.css("a"))
    return len(text) < SHORT or linked > LINKY * len(text)


def _inside(node: Node, tags: set[str]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag in tags:
            return True
        parent = parent.parent
    return False


def _inside_same(node: Node, selector: str) -> bool:
    parent = node.parent
    while parent is not None and parent.tag not in ("body", "html", "-document"):
        if parent.css_matches(selector):
            return True
        parent = parent.parent
    return False


def _pointed_at(body: Node, markup: str) -> _Found | None:
    """The smallest element that holds nearly all that trafilatura takes for content."""
    from trafilatura import extract

    text = extract(markup, output_format="txt", favor_recall=True, include_comments=False, include_formatting=False)
    lines = [line for line in ({_bare(line) for line in (text or "").splitlines()}) if len(line) >= 20]
    total = sum(map(len, lines))
    if total < 200:
        return None

    def covered(node: Node) -> float:
        inside = _bare(node.text() or "")
        return sum(len(line) for line in lines if line in inside) / total

    node, share = body, covered(body)
    if share < COVERED:
        return None
    while True:
        best = max(
            ((covered(child), child) for child in node.iter() if len(child.text() or "") >= total * COVERED),
            key=lambda pair: pair[0],
            default=None,
        )
        if best is None or best[0] < COVERED * share or best[1].tag in ("table", "ul", "ol", "pre", "p"):
            return _Found(node, "trafilatura") if node.mem_id != body.mem_id else None
        node = best[1]


def _bare(text: str) -> str:
    """Letters and digits only: trafilatura writes spaces, bars and dashes of its own."""
    return re.sub(r"[\W_]+", "", text)


# -- the clean page --


def _plain(node: Node) -> str:
    return _SPACE.sub(" ", node.text(separator=" ") or "").strip()


def _missing_heading(tree: Any, node: Node) -> str:
    """The page's only h1 when it stands outside the content."""
    if node.css_first("h1") is not None:
        return ""
    outside = tree.css("h1")
    text = _plain(outside[0]) if len(outside) == 1 else ""
    return f"<h1>{html.escape(text)}</h1>" if text else ""


def _strip_attributes(root: Node, host: str) -> None:
    """Take away what changes from visit to visit, and the addresses of the site itself, which are only noise."""
    for node in root.css("*"):
        attributes = node.attributes
        for name, value in list(attributes.items()):
            text = value or ""
            keep = name in _KEPT_ATTRIBUTES
            if name == "href":
                keep = urlsplit_or_none(text) not in (None, "", host)
            elif name == "src":
                keep = text.startswith("data:image/")
            elif name == "class" and node.tag in ("pre", "code"):
                found = _CODE_CLASS.search(text)
                keep = found is not None
                if found:
                    node.attrs[name] = found[0]
            elif name == "class" and node.tag == "section" and "footnotes" in text:
                node.attrs[name], keep = "footnotes", True
            if not keep:
                del node.attrs[name]


def urlsplit_or_none(address: str) -> str | None:
    """The host of an address; empty for one without, None for one that is none."""
    try:
        return urlsplit(address).netloc
    except ValueError:
        return None


def _page(title: str, address: str, language: str, body: str) -> str:
    lang = f' lang="{html.escape(language)}"' if re.fullmatch(r"[A-Za-z0-9-]{2,20}", language) else ""
    return (
        f'<!doctype html>\n<html{lang}><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<link rel="canonical" href="{html.escape(address)}"></head>\n<body>{body}</body></html>\n'
    )
