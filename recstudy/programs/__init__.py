"""Programs, which compute the metrics of a run from its settings and its seed.

The recursive models are one program. A training function, an existing script and a table of finished runs
are the others.
"""
