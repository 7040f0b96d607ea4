"""Where a group of workers and who hands it runs meet: lines one way, orders the other. An actor that loads next to nothing."""

import asyncio
from typing import Any


class WorkerMailbox:
    """Takes what workers tell, line by line; the answer to a line is what they do next."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[Any, asyncio.Queue[Any]]] = asyncio.Queue()
        self._answer: asyncio.Queue[Any] = asyncio.Queue()  # to the line before; at first to nobody

    async def tell(self, line: Any) -> Any:
        """Hand in a line, and wait for the order that answers it. Who has died by then leaves its answer to nobody."""
        answer: asyncio.Queue[Any] = asyncio.Queue()
        self._told.put_nowait((line, answer))
        return await answer.get()

    async def next(self, order: Any) -> Any:
        """Answer the line before with `order`, and wait for the next one."""
        self._answer.put_nowait(order)
        line, self._answer = await self._told.get()
        return line
