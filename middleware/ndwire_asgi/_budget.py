"""What the responses of one middleware may hold in all."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("ndwire_asgi")


class Budget:
    """Counts bytes that are held.

    Several event loops, each in a thread of its own, may share it.

    Args:
        n_bytes: The most that may be held at a time.

    Raises:
        ValueError: ``n_bytes`` is negative.
    """

    __slots__ = ("_left", "_lock", "_n_bytes", "_warned")

    def __init__(self, n_bytes: int) -> None:
        if n_bytes < 0:
            raise ValueError(f"max_held_bytes_total must be at least 0, not {n_bytes}")
        self._n_bytes = n_bytes
        self._left = n_bytes
        self._lock = threading.Lock()
        self._warned = False

    def take(self, n_bytes: int) -> bool:
        """Hold more bytes, or, if ``n_bytes`` is negative, fewer. False: there is no room, and nothing changes."""
        with self._lock:
            if n_bytes <= self._left:
                self._left -= n_bytes
                return True
        if not self._warned:
            self._warned = True
            logger.warning(
                "values go out as they came: all responses together would hold more than %d bytes of text "
                "(max_held_bytes_total; said once)",
                self._n_bytes,
            )
        return False
