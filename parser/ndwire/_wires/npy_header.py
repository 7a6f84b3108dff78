"""The header of a ``.npy`` file: the text of a Python dict, read without evaluating it.

NumPy's own reader evaluates the text. That warns, of escapes and of the ``2L`` that Python 2 wrote, and whether a
warning is shown, dropped or raised is a setting of the whole process, which no library may change while other threads
run. Writers send three members, each in one of few forms; these are read here, and whatever else is refused.

Source: numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ndwire._contract.dtypes import DTYPES, USER_DEFINED, DType

_SPACE: Final = rb"[ \t\n\r\f]*+"
# More digits than any dimension has are refused here: Python's time for them grows with their square.
_INTEGER: Final = rb"(?:0|[1-9][0-9]{0,18})L?"
_INTEGERS: Final = re.compile(rb"[0-9]++")
_TUPLE: Final = _SPACE.join(
    (rb"\(", rb"(?:(?:" + _SPACE.join((_INTEGER, b",", b"")) + rb")++(?:" + _INTEGER + rb")?+)?+")
)


def _member(name: bytes, value: bytes) -> bytes:
    return _SPACE.join((rb"u?(?:'%b'|\"%b\")" % (name, name), b":", value))


_MEMBERS: Final = (
    _member(b"descr", rb"u?(?P<quote>['\"])(?P<descr>[^'\"\\\n]*+)(?P=quote)"),
    _member(b"fortran_order", rb"(?P<fortran_order>True|False)"),
    _member(b"shape", rb"(?P<shape>" + _TUPLE + _SPACE + rb"\))"),
)
_OPENING: Final = re.compile(rb"[ \t]*+\{" + _SPACE)
_MEMBER: Final = re.compile(_SPACE.join((b"(?:" + b"|".join(_MEMBERS) + b")", rb"(?:,|(?=\}))", b"")))
_CLOSING: Final = re.compile(rb"\}" + _SPACE + rb"\Z")

_ORDERS: Final = frozenset("<>=|")
_STANDARD: Final = tuple(dtype for dtype in DTYPES.values() if dtype.isbuiltin != USER_DEFINED)
# What stands behind the byte order: "i2" as NumPy writes it, the dtype's name, or the letter of its C type.
_BY_CODE: Final[dict[str, DType]] = {
    **{dtype.str[1:]: dtype for dtype in _STANDARD},
    **{dtype.name: dtype for dtype in _STANDARD},
    **{dtype.char: dtype for dtype in _STANDARD},
}


class Header(NamedTuple):
    """What a header says.

    Attributes:
        descr: The dtype, as NumPy writes it.
        fortran_order: Whether the first dimension varies fastest.
        shape: The dimensions.
    """

    descr: str
    fortran_order: bool
    shape: tuple[int, ...]


def parse_header(text: bytes) -> Header | None:
    """Read the text of a header; None if it is not one of a plain array.

    Args:
        text: All that stands between the length and the data.
    """
    members: dict[str | None, bytes] = {}
    match = _OPENING.match(text)
    at = 0
    while match is not None:
        at = match.end()
        match = _MEMBER.match(text, at)
        if match is not None:
            if match.lastgroup in members:
                return None
            members[match.lastgroup] = match[match.lastgroup or 0]
    if len(members) != len(_MEMBERS) or _CLOSING.match(text, at) is None:
        return None
    return Header(
        members["descr"].decode("latin-1"),
        members["fortran_order"] == b"True",
        tuple(map(int, _INTEGERS.findall(members["shape"]))),
    )


def dtype_of(descr: str, opaque: DType | None) -> DType | None:
    """Return the dtype that a header calls ``descr``; None where the wire has none.

    Args:
        descr: A byte order and a code, such as ``<i2``.
        opaque: The dtype of ml_dtypes that bytes of unknown kind are taken for. NumPy saves such arrays as ``<V2`` and
            the like, which says their size alone.
    """
    order, code = (descr[:1], descr[1:]) if descr[:1] in _ORDERS else ("=", descr)
    dtype = _BY_CODE.get(code)
    if dtype is not None:
        if order == "<":
            return dtype.newbyteorder("<")
        return dtype.newbyteorder(">") if order == ">" else dtype
    if opaque is not None and order != ">" and code in (opaque.str[1:], f"V{opaque.itemsize}"):
        return opaque
    return None


def opaque_dtype(dtypes: Sequence[str] | None) -> DType | None:
    """Return the dtype of ml_dtypes that a field allows alone; None for every other field."""
    if dtypes is None or len(dtypes) != 1:
        return None
    dtype = DTYPES[dtypes[0]]
    return dtype if dtype.isbuiltin == USER_DEFINED else None
