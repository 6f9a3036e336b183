"""Column types that the libraries do not bring."""

from __future__ import annotations

from typing import Any

from pgvector.django import BitField


class VaryingBitField(BitField):
    """Bits of any length: spaces differ in width, and PostgreSQL reads a bare `bit` as one bit."""

    def db_type(self, connection: Any) -> str:
        return "bit varying"
