"""The own words of a base: what people change (`verbs`), read from sheets (`sheets`), and what follows in the index.

`overlay` is the form in which texts and queries are matched; `retokenising` brings the leaves that hold a changed
word up to it, in the background. Nothing is imported here: whoever writes lexemes needs `overlay` alone.
"""
