"""The embedding model that comes with the installation: weights, tokens, graph, and the process that serves it.

Nothing in this package imports Django: the server process stays small.
"""
