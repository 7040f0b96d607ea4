"""Data sets by name: the configs and readers that a study's settings refer to.

Importing this package loads neither torch nor any image.
"""
