"""Programs: what the runs of a study execute. Each makes metrics of settings and a seed.

The recursive models are one program. A user's training function, an existing script and a table of finished
runs are others.
"""
