"""The errors that reading a body can end in.

    WireError(ValueError)
    ├── MalformedJSON       not JSON: a gateway's page, stray bytes         retryable
    │   └── CompressedBody  the client has not unpacked it                  not retryable
    ├── IncompleteBody      the body ended early                            retryable
    ├── ContractError       JSON, but the packed contract is broken         not retryable
    │   ├── MalformedArray  base64, shape, dtype, byte count, ndim, check
    │   └── LayoutDrift     packed, but not where or how it can be cut
    └── LimitExceeded       more than the caller's Limits allow             not retryable

What the network or a gateway broke may be asked for again. A server that breaks the contract will break
it again.
"""

from __future__ import annotations

from typing import ClassVar


class WireError(ValueError):
    """A body could not be read.

    Attributes:
        offset: The byte of the body, counted from 0, that the error is about: the first byte of the value for
            ``MalformedArray``, ``LayoutDrift`` and ``LimitExceeded``, the byte that the JSON parser stopped at for
            ``MalformedJSON``, the length of the body for ``IncompleteBody``. ``None`` where there is no body.
        retryable: Whether asking again may help.
    """

    retryable: ClassVar[bool] = False
    offset: int | None

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset

    @property
    def message(self) -> str:
        """What is wrong, without the place."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} (byte {self.offset} of the body)"


class MalformedJSON(WireError):
    """The body is not JSON: a gateway's page, stray bytes."""

    retryable = True


class CompressedBody(MalformedJSON):
    """The body is still compressed: its client lacks the package for that coding, or does not know it."""

    retryable = False


class IncompleteBody(WireError):
    """The body ended before its document did."""

    retryable = True


class ContractError(WireError):
    """The body is JSON, but what claims to be a packed array is none, or would get lost."""


class MalformedArray(ContractError):
    """A packed array whose base64, shape, dtype, byte count, number of dimensions or contents are wrong."""


class LayoutDrift(ContractError):
    """A packed array in a place or an order that the parser cannot cut out of the stream."""


class LimitExceeded(WireError):
    """The body holds more than the caller's ``Limits`` allow."""


def copied(error: WireError) -> WireError:
    """Return an equal error without traceback and cause, to be kept, or raised again."""
    return type(error)(error.message, offset=error.offset)
