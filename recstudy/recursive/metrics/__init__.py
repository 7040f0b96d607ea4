"""The metrics of classification, grids and captions, computed from saved answers.

Importing this package does not load numpy, torch, pandas or scikit-learn. Each metric imports them when it is
computed, so that commands start quickly.
"""
