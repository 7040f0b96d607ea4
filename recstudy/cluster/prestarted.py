"""Processes that Ray has begun before anybody asked for one, which are there for whoever asks for no environment of its own.

Tune and Train (2.60) give theirs one: variables of this process. On a cluster of our own they have them by its start, on a joined
one by the job. Without it a process of Tune's takes one that is there, and Train's worker starts at once, not by way of another.
"""

from ray.train.v2._internal import constants
from ray.tune.execution import class_cache

GIVEN = (class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE, constants.ENV_VARS_TO_PROPAGATE)


def without_environments() -> None:
    """What this process starts by Tune or Train from now on gets no variables of its own."""
    for variables in GIVEN:
        variables.clear()
