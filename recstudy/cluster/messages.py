"""Requests to leave, from the driver to its runs, and lines, from Ray Train's workers to the trial that
started them.
"""

import asyncio
from collections import defaultdict
from typing import Any

ALL = ""  # the key of a request to every run


class Messages:
    """An actor beside the driver. It imports next to nothing, so that its process starts quickly and stays
    small.
    """

    def __init__(self) -> None:
        self._requests: set[str] = set()  # node ids, or ALL
        self._lines: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)  # by attempt
        self._stopped: set[str] = set()  # attempts

    async def request(self, key: str) -> None:
        """Ask the runs of a node, or all runs, to leave."""
        self._requests.add(key)

    async def requested(self, node_id: str) -> tuple[bool, bool]:
        """Return whether the runs of a node are to leave, and whether that is for the node."""
        return bool(self._requests & {ALL, node_id}), node_id in self._requests

    async def put(self, attempt: str, line: Any) -> bool:
        """Pass on a line of an attempt, and return whether the attempt goes on."""
        self._lines[attempt].put_nowait(line)
        return attempt not in self._stopped

    async def get(self, attempt: str) -> Any:
        """Wait for the next line of an attempt."""
        return await self._lines[attempt].get()

    async def stop(self, attempt: str) -> None:
        """Stop an attempt at its next line."""
        self._stopped.add(attempt)

    async def forget(self, attempt: str) -> None:
        """Drop the lines of an attempt that has ended."""
        self._lines.pop(attempt, None)
        self._stopped.discard(attempt)
