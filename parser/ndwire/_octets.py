"""What counts as bytes, and what is said of everything else."""

from __future__ import annotations

BytesLike = bytes | bytearray | memoryview
"""What is taken where bytes are wanted; other objects with the buffer protocol work as well."""


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
        kind = type(value)
        raise TypeError(f"{what} must be bytes-like, not {kind.__module__}.{kind.__qualname__}") from None
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
