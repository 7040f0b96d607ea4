"""What every model family promises, as checks: of recstudy's own in `tests/contract`, of others by `recstudy
contract FILE`.

A check is a function of a small run config, whose docstring says what holds; it raises `Broken` where it does
not.
"""

from recstudy.contract.checks import Broken, example, switches

__all__ = ["Broken", "example", "switches"]
