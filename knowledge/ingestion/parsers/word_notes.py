"""What a Word file keeps in parts beside the body: footnotes, endnotes, comments, headers and footers."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.ingestion.parsers.ooxml import Package
from knowledge.ingestion.parsers.word_numbering import W
from knowledge.ingestion.parsers.xml import Element

_PARTS = {"footnote": "footnotes", "endnote": "endnotes", "comment": "comments"}


class Notes:
    """Notes by (kind, id), each given out once; what nobody refers to is given out at the end."""

    def __init__(self, package: Package) -> None:
        self._elements: dict[tuple[str, str], Element] = {}
        for kind, relation in _PARTS.items():
            for part in package.related(package.main, relation):
                root = package.xml(part)
                for element in root.iterchildren(f"{W}{kind}") if root is not None else ():
                    if element.get(f"{W}type") in (None, "normal"):
                        self._elements[kind, element.get(f"{W}id", "")] = element

    def take(self, key: tuple[str, str]) -> Element | None:
        """The note, the first time it is asked for."""
        return self._elements.pop(key, None)

    def rest(self) -> Iterator[tuple[tuple[str, str], Element]]:
        """Comments that no visible text refers to. Unreferenced footnotes belong to deleted text."""
        for key, element in list(self._elements.items()):
            if key[0] == "comment":
                yield key, element


def margins(package: Package) -> Iterator[Element]:
    """The header and footer parts that a section uses, each once, headers first."""
    links = package.relations(package.main)
    for kind in ("headerReference", "footerReference"):
        seen: set[str] = set()
        for reference in package.root.iter(f"{W}{kind}"):
            relation = next((value for name, value in reference.items() if name.endswith("}id")), "")
            link = links.get(relation)
            if link is None or link.external or link.target in seen:
                continue
            seen.add(link.target)
            root = package.xml(link.target)
            if root is not None:
                yield root
