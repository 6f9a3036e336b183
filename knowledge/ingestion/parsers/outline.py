"""Which headings stand above a block: by level and order, never by searching for their text."""

from __future__ import annotations

from knowledge.ingestion.blocks import Block


class Outline:
    """The open headings at the present place of a document; recurring titles are no problem."""

    def __init__(self, root: tuple[str, ...] = ()) -> None:
        self._root = root
        self._open: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        """Titles above the next block, outermost first."""
        return self._root + tuple(title for _, title in self._open)

    def heading(self, level: int, title: str) -> Block | None:
        """Close what `level` ends, open the title and give its block; None for a title without text."""
        title = " ".join(title.split())
        if not title:
            return None
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        block = Block(kind="heading", text=title, level=level, heading_path=self.path)
        self._open.append((level, title))
        return block
