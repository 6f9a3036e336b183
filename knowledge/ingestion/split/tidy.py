"""Clean-up rules that a person chose, applied to a parsed document before it is split.

The result is a document of its own: its offsets point into its own text, which is what is stored and
shown as the parsed text. Code blocks and tables keep their lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.ingestion.split.patterns import Clock, Pattern, compiled, matches, without

_SPACES = re.compile(r"[ \t\u00a0\u3000]{2,}")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_URL = re.compile(r"https?://[^\s<>\"'，。；、）)\]】]+|www\.[^\s<>\"'，。；、）)\]】]+")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


@dataclass(frozen=True, slots=True)
class TidyRules:
    """What to take out. `remove` are regular expressions, all together at most `seconds` for a document."""

    spaces: bool = False
    blank_lines: bool = False
    urls: bool = False
    emails: bool = False
    remove: tuple[str, ...] = ()
    seconds: float = 2.0

    def __bool__(self) -> bool:
        return self.spaces or self.blank_lines or self.urls or self.emails or bool(self.remove)


def tidy(document: ParsedDocument, rules: TidyRules) -> ParsedDocument:
    """The document after the rules, empty blocks dropped. Raises `Invalid` (`bad_pattern`, `pattern_too_slow`)."""
    if not rules:
        return document
    patterns, clock = compiled(rules.remove), Clock(rules.seconds)
    blocks = [replace(block, text=_tidy_text(block, rules, patterns, clock)) for block in document.blocks]
    return assemble(
        document.mime,
        blocks,
        warnings=document.warnings,
        images=document.images,
        page_count=document.page_count,
        title=document.title,
        metadata=document.metadata,
    )


@dataclass(frozen=True, slots=True)
class Removed:
    """What one rule took out: how often, and the first few. `rule` is the field of `TidyRules`, or the pattern."""

    rule: str
    count: int
    examples: tuple[str, ...]


def removed_by(document: ParsedDocument, rules: TidyRules) -> list[Removed]:
    """What `tidy` takes out of the document, rule by rule, in the order in which the rules work.

    A rule is counted in the text as it was read: where a pattern takes a whole address, that address is told
    twice. Raises `Invalid` as `tidy` does.
    """
    clock = Clock(rules.seconds)
    found = [
        _removed(
            pattern.pattern,
            [block.text[slice(*span)] for block in document.blocks for span in matches(pattern, block.text, clock)],
        )
        for pattern in compiled(rules.remove)
    ]
    plain = [block.text for block in document.blocks if block.kind not in ("code", "table")]
    every = [block.text for block in document.blocks]
    for wanted, rule, pattern, texts in (
        (rules.urls, "urls", _URL, every),
        (rules.emails, "emails", _EMAIL, every),
        (rules.spaces, "spaces", _SPACES, plain),
        (rules.blank_lines, "blank_lines", _BLANK_LINES, plain),
    ):
        if wanted:
            found.append(_removed(rule, [piece for text in texts for piece in pattern.findall(text)]))
    return [one for one in found if one.count]


def _removed(rule: str, pieces: Sequence[str]) -> Removed:
    return Removed(rule, len(pieces), tuple(dict.fromkeys(piece[:80] for piece in pieces if piece.strip()))[:3])


def _tidy_text(block: Block, rules: TidyRules, patterns: Sequence[Pattern], clock: Clock) -> str:
    text = block.text
    for pattern in patterns:
        text = without(pattern, text, clock)
    if rules.urls:
        text = _URL.sub("", text)
    if rules.emails:
        text = _EMAIL.sub("", text)
    if block.kind not in ("code", "table"):
        if rules.spaces:
            text = _SPACES.sub(" ", text)
        if rules.blank_lines:
            text = _BLANK_LINES.sub("\n", text)
    return text
