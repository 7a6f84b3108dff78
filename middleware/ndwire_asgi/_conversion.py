"""The body of one response on its way through the rewriter: what it becomes, and what that took."""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeGuard

import anyio.lowlevel
from starlette.types import Scope

from ndwire import Field, Held, Rewriter
from ndwire_asgi._budget import Budget
from ndwire_asgi._media import Framing, FramingOf
from ndwire_asgi._threads import render

logger = logging.getLogger("ndwire_asgi")

# The loop is let go on after so much work on it, in seconds.
_LONG: Final = 0.001
# What a response may hold without being counted: no more than its messages take in any server.
_UNCOUNTED: Final = 64 << 10


class Rewritten(NamedTuple):
    """What was rewritten in one response.

    Attributes:
        scope: The request's ASGI scope.
        fields: The names of the fields, each with the number of values that became envelopes.
        n_bytes_before: The length of the body as the app sent it.
        n_bytes_after: The length of the body as it went out.
        seconds: The time that rewriting took, threads included.
    """

    scope: Scope
    fields: dict[str, int]
    n_bytes_before: int
    n_bytes_after: int
    seconds: float


class Settings(NamedTuple):
    """What the responses of one middleware share."""

    framing_of: FramingOf
    max_hold_bytes: int
    budget: Budget
    min_bytes: int
    idle_seconds: float
    on_rewrite: Callable[[Rewritten], object] | None


class Conversion:
    """Turns the pieces of one body into what goes out.

    No fault of rewriting loses a byte: the rewriter and ``Held`` give back what came.

    Args:
        fields: What is rewritten.
        framing: How documents stand in the body.
        settings: The middleware's.

    Attributes:
        n_before: The number of bytes that came in.
        n_after: The number of bytes that went out, as far as the responder has said so.
    """

    # Most responses change few of these: as defaults of the class they cost nothing.
    n_before = 0
    n_after = 0
    _seconds = 0.0
    _worked = 0.0  # on the loop, since it was let go on
    _counted = 0  # of the middleware's budget
    _kept = 0  # by the responder
    _is_over = False

    def __init__(self, fields: tuple[Field, ...], framing: Framing, settings: Settings) -> None:
        self._settings = settings
        self._rewriter = Rewriter(
            fields, framing=framing, max_hold_bytes=settings.max_hold_bytes, min_bytes=settings.min_bytes
        )
        self._facts: dict[str, int] = {}

    async def convert(self, window: bytes) -> list[bytes]:
        """Return what the next bytes of the body become, as far as it is known."""
        if self._worked > _LONG:
            # While the socket takes the data, send does not yield, and the work here does not either.
            await anyio.lowlevel.checkpoint()
            self._worked = 0.0
        before = time.perf_counter()
        items = self._rewriter.feed(window)
        seconds = time.perf_counter() - before
        self.n_before += len(window)
        self._seconds += seconds
        self._worked += seconds
        if self._rewriter.fault is not None:
            warn(self._rewriter.fault)
            self._rewriter.fault = None
        n_held = self._rewriter.n_held
        if _is_rendered(items):
            if n_held <= _UNCOUNTED and not self._counted:
                return items
            return items if self._has_room(n_held) else self._let_go(items)
        n_held += sum(item.n_bytes for item in items if isinstance(item, Held))
        return await self._rendered(items) if self._has_room(n_held) else self._let_go(items)

    def keep(self, n_bytes: int) -> bool:
        """Say how many bytes the responder keeps; False, and nothing changes, if there is no room for as many."""
        if not self._count(max(self._rewriter.n_held, n_bytes)):
            return False
        self._kept = n_bytes
        return True

    def settle(self) -> None:
        """Say that all has gone out but for what is held, here and by the responder."""
        if self._counted:
            self._count(max(self._rewriter.n_held, self._kept))

    def end(self) -> None:
        """Say that nothing more comes: nothing is counted from now on, and what comes all the same is not held."""
        if self._counted:
            self._count(0)
        self._is_over = True

    def _has_room(self, n_held: int) -> bool:
        # What the responder keeps is what the rewriter is given then: it counts once.
        return (n_held <= _UNCOUNTED and not self._counted) or self._count(max(n_held, self._kept))

    def _count(self, n_bytes: int) -> bool:
        """Hold so many bytes in all; False if all responses together may not hold as much."""
        n_bytes = n_bytes if n_bytes > _UNCOUNTED else 0
        if (n_bytes and self._is_over) or not self._settings.budget.take(n_bytes - self._counted):
            return False
        self._counted = n_bytes
        return True

    @property
    def holds_value(self) -> bool:
        """Whether what is held begins with a value, in front of which JSON allows white space."""
        return self._rewriter.holds_value

    def _let_go(self, items: Iterable[bytes | Held]) -> list[bytes]:
        """Return text in which all that is held stands as it came."""
        pieces: list[bytes] = []
        for item in [*items, *self._rewriter.let_go()]:
            pieces += [item] if isinstance(item, bytes) else item.original()
        self.settle()
        return pieces

    def close(self) -> list[bytes]:
        """Return what is held, as it came: the body has ended."""
        return self._rewriter.close()

    async def _rendered(self, items: list[bytes | Held]) -> list[bytes]:
        """Return text that has all of its values in it."""
        before = time.perf_counter()
        results = collections.deque(await render([item for item in items if isinstance(item, Held)]))
        self._worked = 0.0
        self._seconds += time.perf_counter() - before
        pieces: list[bytes] = []
        faults = 0
        for item in items:
            if isinstance(item, bytes):
                pieces.append(item)
                continue
            rendered = results.popleft()
            faults += rendered.fault is not None
            pieces += item.original() if faults else rendered.pieces
            if rendered.rewritten and not faults:
                self._facts[item.name] = self._facts.get(item.name, 0) + 1
            elif rendered.refusal is not None:
                logger.debug("%s goes out as it came: %s", item.name, rendered.refusal)
            elif faults == 1:
                warn(rendered.fault)
        if faults:
            pieces += self._rewriter.close()
        return pieces

    def report(self, scope: Scope) -> None:
        """Say what was rewritten: the body has gone out."""
        facts = self._facts
        if not facts and not self._rewriter.fields:
            logger.debug("a response goes out as it came: no value under the names of the fields became an envelope")
            return
        for name, count in self._rewriter.fields.items():
            facts[name] = facts.get(name, 0) + count
        logger.debug("rewrote %s: %d bytes became %d in %.6f s", facts, self.n_before, self.n_after, self._seconds)
        if self._settings.on_rewrite is not None:
            try:
                self._settings.on_rewrite(Rewritten(scope, facts, self.n_before, self.n_after, self._seconds))
            except Exception:
                logger.warning("on_rewrite failed", exc_info=True)


def _is_rendered(items: list[bytes | Held]) -> TypeGuard[list[bytes]]:
    return Held not in map(type, items)


def warn(fault: Exception | None) -> None:
    """Say that something failed here that should not have."""
    logger.warning("rewriting failed: the rest of the response goes out as it came", exc_info=fault)
