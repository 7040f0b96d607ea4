"""What every model family and task must do, and the check of it.

`tests/recursive/contract` checks recstudy's own families and `recstudy check FILE` those of a user. A check
is a function of a small run config. Its docstring names the property, and it raises `Broken` if the property
is violated.
"""

from recstudy.recursive.contract.checks import Broken, example, switches

__all__ = ["Broken", "example", "switches"]
