"""Where a group of workers and who hands it runs meet: lines one way, orders the other. An actor that loads next to nothing."""

import asyncio
from typing import Any


class Desk:
    """Takes what workers tell, line by line; the answer to a line is what they do next."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self._answer: asyncio.Future[Any] | None = None

    async def tell(self, line: Any) -> Any:
        """Hand in a line, and wait for the order that answers it. Who has died by then leaves its answer to nobody."""
        answer = asyncio.get_running_loop().create_future()
        self._told.put_nowait((line, answer))
        return await answer

    async def next(self, order: Any) -> Any:
        """Answer the line before with `order`, and wait for the next one."""
        if self._answer is not None:
            self._answer.set_result(order)
            self._answer = None
        line, self._answer = await self._told.get()
        return line
