"""A model that needs no key: the "demo model" of a newcomer, and the outside world of the tests.

It speaks the wire formats of the providers over HTTP and answers by rule, never by understanding. What it
does rides in the model name (`behaviour.py`), so that every test and every load run is deterministic.
It imports nothing of Django.
"""
