from __future__ import annotations

import threading
import time
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest

from ndwire import Held
from ndwire_asgi._threads import render


class Endless:
    """A value whose rendering ends with an exception of the hook only."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.ended = threading.Event()

    def render(self, pause: Any) -> Any:
        self.began.set()
        try:
            while True:
                time.sleep(0.001)
                pause()
        finally:
            self.ended.set()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_thread_that_nobody_waits_for_any_more_stops(backend: str) -> None:
    value = Endless()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(render, [cast("Held", value)])
            await anyio.to_thread.run_sync(value.began.wait)
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert value.ended.wait(10)
