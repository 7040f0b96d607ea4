"""Seeds for each purpose, drawn from a run's one."""

import numpy as np


def draw(seed: int, *purpose: str | int) -> int:
    """A seed of its own for each purpose, far from those of neighbouring seeds."""
    words = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in purpose]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1, np.uint64)[0] >> 1)
