"""SIGTERM asks a sweep to end: its runs leave after the epoch under way, each with a checkpoint to go on from.

The driver answers by an actor's name, for which each run's process looks: so all of a cluster hear of it, on whatever node.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray

from recstudy.terminal import on_sigterm, stop_on_sigterm

NAME = "leave"  # in the namespace of the driver's job, which is its own


class Notice:
    """It says what there is to say by being there."""


class Leaving:
    """Of a driver: whether it was asked to end, and told its runs."""

    def __init__(self) -> None:
        self.asked = False
        self._notice: Any = None

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Within the block the first SIGTERM asks, and one more is a stop like any other; so is the end of what was asked."""
        on_sigterm(self._ask)
        try:
            yield
        finally:
            stop_on_sigterm()
        if self.asked:
            raise KeyboardInterrupt

    def _ask(self, *_: object) -> None:
        self.asked = True
        stop_on_sigterm()

    def tell(self) -> bool:
        """Tell the runs, where that is asked for and was not done."""
        if not self.asked or self._notice is not None:
            return False
        self._notice = ray.remote(Notice).options(name=NAME, num_cpus=0).remote()
        return True


def asked_to_leave() -> bool:
    """Whether the driver of this process wants it to leave its run."""
    with suppress(ValueError, ray.exceptions.RayError):
        ray.get_actor(NAME)
        return True
    return False
