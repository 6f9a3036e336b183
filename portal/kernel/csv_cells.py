"""Cells of CSV files that people open in a spreadsheet: text that somebody typed must not run there as a formula."""

from __future__ import annotations

# What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection).
_ACTIVE = ("=", "+", "-", "@", "\t", "\r")


def inert(text: str) -> str:
    """The text behind an apostrophe when a spreadsheet would run it."""
    return f"'{text}" if text.startswith(_ACTIVE) else text


def typed(cell: str) -> str:
    """What `inert` was given, so that an exported sheet can be imported again."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_ACTIVE) else cell
