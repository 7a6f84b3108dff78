"""Bounds on what one body may make the reader hold."""

from __future__ import annotations

import dataclasses

from ndwire._contract.shown import shown

MAX_NDIM = 64
"""The most dimensions that a NumPy array can have (NumPy 2; 32 in NumPy 1)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one body may hold at the most. Every bound trips at a byte that the body alone decides.

    The defaults are far above what honest servers send and below what takes a training host down.

    Attributes:
        array_bytes: Decoded bytes of one array.
        total_array_bytes: Decoded bytes of all arrays of a body together.
        arrays: Number of arrays in a body.
        remainder_bytes: Bytes of the JSON that is left when the arrays are cut out, sidecars included.
        list_bytes: Bytes of the text of one list under a registered name.
        ndim: Dimensions of one array.

    Raises:
        ValueError: A bound is negative or no integer.
    """

    # Hidden states of 128k tokens x 8,192 in float32 are 4 GiB; twice that is no longer one sample.
    array_bytes: int = 8 << 30
    # A batch of some dozens of samples in one body; more belongs in several requests.
    total_array_bytes: int = 32 << 30
    # An array costs some 300 bytes besides its data, so this bounds the overhead to 300 MB.
    arrays: int = 1_000_000
    # orjson takes some 13 times its input for numbers, and up to 38 times for lists of empty lists.
    remainder_bytes: int = 1 << 30
    # A 128k-token sample of 48 x 8 routes as nested text is 200 MB. The text is held until the list ends; reading it as
    # int64 takes up to 9 times as much, of which 4 are the array.
    list_bytes: int = 512 << 20
    # What NumPy itself can hold.
    ndim: int = MAX_NDIM

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value: object = getattr(self, item.name)
            if type(value) is not int or value < 0:
                raise ValueError(f"Limits.{item.name} must be an integer of at least 0, not {shown(value)}")
