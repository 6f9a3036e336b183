"""A zip of documents: every entry that can be read, in the archive's order, under a heading with its path."""

from __future__ import annotations

from contextvars import ContextVar

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.archive import Archive, Budget, Entry
from knowledge.ingestion.parsers.encodings import decode, normalise
from knowledge.ingestion.parsers.members import Members
from portal.kernel.errors import ParseError

MIME = "application/zip"
NOISE = frozenset({"__macosx", ".ds_store", "thumbs.db", "desktop.ini"})
# Shared by an archive and the archives inside it, so that nesting does not multiply the limits.
_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """One document of all readable entries, archives inside to depth 2.

    Raises `ParseError`: `archive_limit`, `damaged_file`, `no_readable_member` (with the reason of the first).
    """
    budget = _budget.get() or Budget.of(context)
    token = _budget.set(budget)
    members = Members(context)
    try:
        with Archive(source.path, context, budget=budget) as archive:
            entries = [entry for entry in archive.entries if not entry.is_dir and not is_noise(entry.name)]
            names = _names(entries)
            for index, (entry, name) in enumerate(zip(entries, names, strict=True)):
                context.progress(index, len(entries))
                _add(members, archive, entry, name)
            context.progress(len(entries), len(entries))
    finally:
        _budget.reset(token)
    if not members.read and members.warnings:
        raise ParseError(
            "Nothing in this archive could be read: %(reason)s",
            code="no_readable_member",
            reason=members.warnings[0].removeprefix("skipped_member: "),
        )
    return assemble(MIME, members.blocks, warnings=members.warnings, images=tuple(members.images.values()))


def is_noise(name: str) -> bool:
    """Whether an entry is what operating systems leave behind, not somebody's document."""
    parts = name.lower().split("/")
    return any(part in NOISE for part in parts) or parts[-1].startswith(("._", "~$"))


def _add(members: Members, archive: Archive, entry: Entry, name: str) -> None:
    try:
        data = archive.read(entry)
    except ParseError as error:
        if error.code == "archive_limit":
            raise
        members.skip(name, error)
        return
    members.add(name, data)


def _names(entries: list[Entry]) -> list[str]:
    """Names as their authors saw them.

    One archive is written by one tool, so the names without a UTF-8 flag are decoded together: a
    short name alone says too little about its encoding.
    """
    raw = [entry.raw_name for entry in entries if not entry.utf8]
    encoding = decode(b"\n".join(raw)).encoding if raw else "utf-8"
    names = []
    for entry in entries:
        name = entry.name
        if not entry.utf8:
            try:
                name = entry.raw_name.decode(encoding).replace("\\", "/")
            except UnicodeDecodeError:
                name = entry.name
        names.append(normalise(name).replace("\n", " ").strip() or "unnamed")
    return names
