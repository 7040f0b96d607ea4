"""How far a moving average of the weights looks back: said of plans before they run (`study/advice.py`), and by the audit."""


def averaged_steps(decay: float) -> float:
    """How many steps a moving average of the weights looks back: 1 / (1 - decay), 0 without one."""
    return 1 / (1 - decay) if 0 < decay < 1 else 0.0


def outlasts(decay: float, steps: float) -> bool:
    """Whether the average looks back beyond a run of so many optimiser steps, to its random initial weights."""
    return steps < averaged_steps(decay)
