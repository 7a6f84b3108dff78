"""The types that many modules speak of, each named once; and what counts as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BytesLike = bytes | bytearray | memoryview
"""What is taken where bytes are wanted; other objects with the buffer protocol work as well."""

Allocate = Callable[[str, int], NDArray[np.uint8]]
"""Gives the memory for an array of a name, and of so many bytes at the most."""

JSONLoads = Callable[[Any], Any]
"""Parses JSON: text in, plain dicts, lists and scalars out; ``ValueError`` for text that it refuses."""

Pause = Callable[[], object]
"""Called between slices of work, so that other threads can run."""


def no_pause() -> None:
    """Go on at once."""


def as_octets(value: object, what: str = "a chunk") -> bytes | bytearray | memoryview:
    """Return ``value`` if it is bytes-like: ``bytes`` and ``bytearray`` as they are, others as a view of their bytes.

    Args:
        value: What a caller passed.
        what: What it was passed as; opens the error's message.

    Returns:
        The same bytes. A ``memoryview`` is C-contiguous, of format ``B``; it copies only where the memory is strided.

    Raises:
        TypeError: It is not bytes-like. An ``int`` is none, although ``bytes`` takes one.
    """
    if isinstance(value, (bytes, bytearray)):
        return value
    if isinstance(value, str):
        raise TypeError(f"{what} must be bytes-like, not str: pass the bytes as they arrived, or text.encode()")
    try:
        view = memoryview(value)  # type: ignore[arg-type]  # that it may be no buffer is the question
    except TypeError:
        view = None
    # A number of NumPy is a buffer as well; and the bytes of objects are pointers.
    if view is None or not view.ndim or "O" in view.format:
        kind = type(value)
        raise TypeError(f"{what} must be bytes-like, not {kind.__module__}.{kind.__qualname__}")
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
