"""Text for index and query: one normal form, one tokeniser, one way into PostgreSQL.

`clean` is for every sink of text; `tokenise` and `query_lexemes` are the only ways to lexemes; the
`*_literal` functions are the only ways from lexemes into SQL. Pure functions: no database, no settings.
"""

from knowledge.text.identifiers import is_code
from knowledge.text.normal_form import Normalised, clean, normalise
from knowledge.text.postgres import tsquery_literal, tsvector_literal
from knowledge.text.query import QueryKind, Script, highlight_spans, query_kind, query_lexemes, query_script
from knowledge.text.terms import Term, Terms
from knowledge.text.tokeniser import Token, tokenise

__all__ = [
    "Normalised",
    "QueryKind",
    "Script",
    "Term",
    "Terms",
    "Token",
    "clean",
    "highlight_spans",
    "is_code",
    "normalise",
    "query_kind",
    "query_lexemes",
    "query_script",
    "tokenise",
    "tsquery_literal",
    "tsvector_literal",
]
