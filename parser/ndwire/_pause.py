"""The hook of work that takes long: called between slices of it, so that other threads can run."""

from __future__ import annotations

from collections.abc import Callable

Pause = Callable[[], object]
"""Called between slices of work."""


def no_pause() -> None:
    """Go on at once."""
