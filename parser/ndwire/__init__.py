"""NumPy arrays through JSON HTTP APIs, at memory speed: the wire format and the client.

``Parser`` takes body chunks as they arrive and decodes the arrays of registered fields into NumPy buffers; ``loads``,
``load`` and ``aload`` are the same in one call. ``dumps`` and ``iter_dumps`` write. The server side is ``ndwire_asgi``.
"""

import types as _types

from ndwire._contract.errors import (
    CompressedBody,
    ContractError,
    IncompleteBody,
    LayoutDrift,
    LimitExceeded,
    MalformedArray,
    MalformedJSON,
    WireError,
)
from ndwire._contract.field import Field, Packed, Wire
from ndwire._contract.limits import Limits
from ndwire._contract.types import Allocate
from ndwire._http.events import ServerSentEvent
from ndwire._http.responses import PREFER
from ndwire._http.streams import (
    aiter_ndjson,
    aiter_sse,
    aload,
    aload_response,
    iter_ndjson,
    iter_sse,
    load,
    load_response,
)
from ndwire._reading.assembler import ArrayReady
from ndwire._reading.parser import Parser, ReadOptions, loads
from ndwire._wires.envelope import pack_ndarray, unpack_ndarray
from ndwire._writing.dumps import Dump, dumps, iter_dumps
from ndwire._writing.held import Held, Rendered
from ndwire._writing.rewriter import Rewriter, TextFraming, rewrite

__all__ = [
    "PREFER",
    "Allocate",
    "ArrayReady",
    "CompressedBody",
    "ContractError",
    "Dump",
    "Field",
    "Held",
    "IncompleteBody",
    "LayoutDrift",
    "LimitExceeded",
    "Limits",
    "MalformedArray",
    "MalformedJSON",
    "Packed",
    "Parser",
    "ReadOptions",
    "Rendered",
    "Rewriter",
    "ServerSentEvent",
    "TextFraming",
    "Wire",
    "WireError",
    "aiter_ndjson",
    "aiter_sse",
    "aload",
    "aload_response",
    "dumps",
    "iter_dumps",
    "iter_ndjson",
    "iter_sse",
    "load",
    "load_response",
    "loads",
    "pack_ndarray",
    "rewrite",
    "unpack_ndarray",
]


def _say_where_they_are_found() -> None:
    """Let tracebacks, pickles and documentation name the public classes and functions as users import them."""
    for name in __all__:
        value: object = globals()[name]
        if isinstance(value, (type, _types.FunctionType)):
            value.__module__ = __name__


_say_where_they_are_found()
