"""Changing the passages of a searchable (or waiting) revision by hand.

`verbs` are what people do, `writing` puts it into the tables, `history` keeps every version, `losses`
tells what a new split would not keep. A passage is the unit of change: its leaves are cut out of its
text, so what is searched is always part of what is shown.
"""
