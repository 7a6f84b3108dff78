"""What one body has taken of its ``Limits``. Every count of them is kept here."""

from __future__ import annotations

from ndwire._contract.errors import LimitExceeded
from ndwire._contract.limits import Limits


class Budget:
    """Counts what one body holds against its limits.

    Args:
        limits: The limits.

    Attributes:
        limits: As given.
    """

    __slots__ = ("_array_bytes", "_arrays", "_text_bytes", "limits")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._arrays = 0
        self._array_bytes = 0  # decoded, of all arrays
        self._text_bytes = 0  # that are kept as JSON: the remainder and the tails

    @property
    def array_bytes_left(self) -> int:
        """The number of bytes that the next array may have."""
        return min(self.limits.array_bytes, self.limits.total_array_bytes - self._array_bytes)

    def admit_array(self, offset: int) -> None:
        """Refuse the array that begins at ``offset`` if there are as many as allowed.

        Raises:
            LimitExceeded: There are.
        """
        if self._arrays >= self.limits.arrays:
            raise LimitExceeded(f"the body has more than {self.limits.arrays} arrays", offset=offset)

    def add_array(self, n_bytes: int) -> None:
        """Count an array that is complete, of so many bytes."""
        self._arrays += 1
        self._array_bytes += n_bytes

    def add_text(self, n_bytes: int, position: int) -> None:
        """Count plain text that is kept.

        Args:
            n_bytes: Its length.
            position: Where in the body it begins.

        Raises:
            LimitExceeded: It is too much; the offset is that of the first byte beyond the limit.
        """
        self._text_bytes += n_bytes
        if self._text_bytes > self.limits.remainder_bytes:
            raise self._too_much_text(position + n_bytes - (self._text_bytes - self.limits.remainder_bytes))

    def add_tail(self, n_bytes: int, offset: int) -> None:
        """Count the members behind the base64 of the array that begins at ``offset``.

        Raises:
            LimitExceeded: They are too much.
        """
        self._text_bytes += n_bytes
        if self._text_bytes > self.limits.remainder_bytes:
            raise self._too_much_text(offset)

    def add_if_it_fits(self, n_bytes: int, tail_bytes: int, ndim: int) -> bool:
        """Count an array together with its tail if that exceeds nothing; return whether it was counted."""
        limits = self.limits
        text_bytes = self._text_bytes + tail_bytes
        array_bytes = self._array_bytes + n_bytes
        if (
            n_bytes > limits.array_bytes
            or array_bytes > limits.total_array_bytes
            or self._arrays >= limits.arrays
            or text_bytes > limits.remainder_bytes
            or ndim > limits.ndim
        ):
            return False
        self._arrays += 1
        self._array_bytes = array_bytes
        self._text_bytes = text_bytes
        return True

    def _too_much_text(self, offset: int) -> LimitExceeded:
        return LimitExceeded(
            f"the body has more than {self.limits.remainder_bytes} bytes of JSON besides its arrays", offset=offset
        )
