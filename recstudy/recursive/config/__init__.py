"""The config of a run, and the base classes of data sets, model families and tasks.

Four parts decide a run's numbers (`data`, `model`, `train`, `seed`); `resources` does not affect them. The
run id is a digest of the four (`ids.py`), so a run has the same id in every study and on every machine. Field
descriptions use the letters of the papers.
"""
