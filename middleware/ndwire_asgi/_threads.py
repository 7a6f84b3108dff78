"""Rendering long values in threads, so that the event loop goes on."""

from __future__ import annotations

import time
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from ndwire import Held, Rendered

# What a thread sleeps after a stretch of work, both in seconds. That gives the interpreter away for sure, unlike
# sleep(0); more often, the thread and the loop would take it from each other all the time.
_PAUSE: Final = 50e-6
_STRETCH: Final = 300e-6
# Conversions share the interpreter with the loop: more of them at once would only make it wait longer.
_THREADS: Final = 2

_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("ndwire_asgi_limiter")


class _AbandonedError(Exception):
    """Nobody waits for the thread any more."""


async def render(values: list[Held]) -> list[Rendered]:
    """Render values in a thread. Where there is none to be had, each is given back as it came, with that fault."""
    abandoned = False
    last = time.perf_counter()

    def pause() -> None:
        nonlocal last
        if abandoned:
            raise _AbandonedError
        if time.perf_counter() - last > _STRETCH:
            time.sleep(_PAUSE)
            last = time.perf_counter()

    try:
        return await anyio.to_thread.run_sync(
            lambda: [value.render(pause) for value in values], abandon_on_cancel=True, limiter=_thread_limiter()
        )
    except Exception as exc:
        return [Rendered(value.original(), rewritten=False, fault=exc) for value in values]
    finally:
        abandoned = True


def _thread_limiter() -> anyio.CapacityLimiter:
    """Return the event loop's own limiter."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)
        return limiter
