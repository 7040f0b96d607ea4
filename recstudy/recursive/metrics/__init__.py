"""The metrics of runs, in one registry for recstudy's and users' metrics.

Importing this package does not load numpy, torch, pandas or scikit-learn. Each metric imports them when it is
computed, so that commands start quickly.
"""
