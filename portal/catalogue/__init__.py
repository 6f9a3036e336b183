"""The catalogue of words: found in templates and Python by ourselves, kept as .po, compiled to .mo.

The gettext tools are not needed, and they would not find the sentences of the error family, which are
message ids passed as plain strings (parsers raise them where there is no Django).
"""
