"""NumPy arrays through JSON HTTP APIs, at memory speed: the wire format and the client.

``Parser`` takes body chunks as they arrive and decodes the arrays of registered fields into NumPy buffers; ``loads``,
``load`` and ``aload`` are the same in one call. ``dumps`` and ``iter_dumps`` write. The server side is ``ndwire_asgi``.
"""

from ndwire._assembler import ArrayReady
from ndwire._buffers import Allocate
from ndwire._envelope import pack_ndarray, unpack_ndarray
from ndwire._errors import (
    CompressedBody,
    ContractError,
    IncompleteBody,
    LayoutDrift,
    LimitExceeded,
    MalformedArray,
    MalformedJSON,
    WireError,
)
from ndwire._events import ServerSentEvent
from ndwire._field import Field, Packed, Wire
from ndwire._held import Held, Rendered
from ndwire._limits import Limits
from ndwire._parser import Parser, ReadOptions, loads
from ndwire._responses import PREFER
from ndwire._rewriter import Rewriter, TextFraming, rewrite
from ndwire._streams import (
    aiter_ndjson,
    aiter_sse,
    aload,
    aload_response,
    iter_ndjson,
    iter_sse,
    load,
    load_response,
)
from ndwire._writer import Dump, dumps, iter_dumps

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
