"""Data sets: their configs, readers, splits and batches.

Importing this package loads neither torch nor any image.
"""
