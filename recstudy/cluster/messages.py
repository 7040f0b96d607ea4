"""An actor that passes messages between the driver, Tune's trials and Ray Train's workers.

The driver requests runs to end early. Workers send their lines to the trial that has started them.
"""

import asyncio
from collections import defaultdict
from typing import Any

ALL = ""  # the key of a request to every run


class Messages:
    """An actor on the driver's node. It imports few modules, so its process starts fast and stays small."""

    def __init__(self) -> None:
        self._requests: set[str] = set()  # node ids, or ALL
        self._lines: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)  # by attempt
        self._stopped: set[str] = set()  # attempts

    async def request(self, key: str) -> None:
        """Request the runs of a node, or all runs, to end early."""
        self._requests.add(key)

    async def requested(self, node_id: str) -> tuple[bool, bool]:
        """Return whether the runs of a node should end early, and whether the node itself is drained."""
        return bool(self._requests & {ALL, node_id}), node_id in self._requests

    async def add_line(self, attempt: str, line: Any) -> bool:
        """Add a line of an attempt, and return whether the attempt may continue."""
        self._lines[attempt].put_nowait(line)
        return attempt not in self._stopped

    async def get(self, attempt: str) -> Any:
        """Wait for the next line of an attempt."""
        return await self._lines[attempt].get()

    async def stop(self, attempt: str) -> None:
        """Stop an attempt at its next line."""
        self._stopped.add(attempt)

    async def discard_lines(self, attempt: str) -> None:
        """Discard the lines of a finished attempt."""
        self._lines.pop(attempt, None)
        self._stopped.discard(attempt)
