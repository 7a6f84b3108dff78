"""The ways people read such bodies today, written from the published ideas."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable
from typing import Any

import ijson  # type: ignore[import-untyped]  # it has no types
import msgspec
import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray

from benchmarks.bodies import Body
from ndwire import Parser, loads


def floor(body: Body) -> Any:
    """Copy the decoded bytes into fresh memory and parse what remains: no reader can do less."""
    arrays = [np.empty_like(array) for array in body.arrays]
    for target, source in zip(arrays, body.arrays, strict=True):
        target[...] = source
    return arrays, orjson.loads(body.remainder)


def bare(body: Body) -> Any:
    """Decode the blob in windows into fresh memory and parse what remains: the least that pybase64 allows."""
    text, array = body.text, np.empty_like(body.arrays[0])
    start = text.index(b'{"data":"') + len(b'{"data":"')
    end = start + (array.nbytes + 2) // 3 * 4
    source, target, at = memoryview(text), array.reshape(-1).view(np.uint8).data, 0
    for window in range(start, end, 256 << 10):
        decoded = pybase64.b64decode(source[window : min(window + (256 << 10), end)], None, True)
        target[at : at + len(decoded)] = decoded
        at += len(decoded)
    return array, orjson.loads(body.remainder)


def _place(document: Any, name: str, arrays: list[NDArray[Any]]) -> Any:
    for holder, array in zip(_holders(document), arrays, strict=True):
        holder[name] = array
    return document


def splice(body: Body) -> Any:
    """Cut the blobs out of the complete body, decode each in one call, parse the rest."""
    text, view = body.text, memoryview(body.text)
    opening = re.compile(b'"' + body.name.encode() + rb'":(\{"data":")')
    pieces: list[bytes] = []
    arrays: list[NDArray[Any]] = []
    end = 0
    for match in opening.finditer(text):
        quote = text.index(b'"', match.end())
        pieces += (text[end : match.start(1)], b"null")
        end = text.index(b"}", quote) + 1
        meta = orjson.loads(b'{"data":"' + text[quote:end])
        blob = _pybase64(view[match.end() : quote])
        arrays.append(np.frombuffer(blob, meta["dtype"]).reshape(meta["shape"]))
    pieces.append(text[end:])
    return _place(orjson.loads(b"".join(pieces)), body.name, arrays)


def splice_slices(body: Body) -> Any:
    """The same as it is mostly written: with slices of the body instead of views."""
    text = body.text
    opening = b'"' + body.name.encode() + b'":{"data":"'
    start = text.index(opening) + len(opening)
    quote = text.index(b'"', start)
    end = text.index(b"}", quote) + 1
    meta = orjson.loads(b'{"data":"' + text[quote:end])
    blob = pybase64.b64decode(text[start:quote], validate=True)
    array = np.frombuffer(blob, meta["dtype"]).reshape(meta["shape"])
    document = orjson.loads(text[: start - len(b'{"data":"')] + b"null" + text[end:])
    return _place(document, body.name, [array])


def _holders(document: Any) -> list[Any]:
    return document["choices"] if "choices" in document else document["data"]  # type: ignore[no-any-return]  # JSON


def _decoded(document: Any, name: str, decode: Callable[[str], bytes | bytearray]) -> Any:
    """Put an array in the place of every envelope of a parsed document."""
    for holder in _holders(document):
        envelope = holder[name]
        holder[name] = np.frombuffer(decode(envelope["data"]), envelope["dtype"]).reshape(envelope["shape"])
    return document


def _pybase64(text: Any) -> bytearray:
    return pybase64.b64decode_as_bytearray(text, None, True)


def parse_then_decode(body: Body) -> Any:
    """orjson for everything, then pybase64 on the strings."""
    return _decoded(orjson.loads(body.text), body.name, _pybase64)


def json_then_base64(body: Body) -> Any:
    """The standard library: json, then base64."""
    return _decoded(json.loads(body.text), body.name, functools.partial(base64.b64decode, validate=True))


class _Bytes(msgspec.Struct):
    data: bytes
    shape: list[int]
    dtype: str


class _Text(msgspec.Struct):
    data: msgspec.Raw
    shape: list[int]
    dtype: str


class _Choice(msgspec.Struct):
    index: int
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    routed_experts: _Bytes


class _RawChoice(msgspec.Struct):
    index: int
    token_ids: list[int]
    logprobs: list[float]
    finish_reason: str
    routed_experts: _Text


class _Document(msgspec.Struct):
    choices: list[_Choice]


class _RawDocument(msgspec.Struct):
    choices: list[_RawChoice]


_DECODER = msgspec.json.Decoder(_Document)
_RAW_DECODER = msgspec.json.Decoder(_RawDocument)


def msgspec_bytes(body: Body) -> Any:
    """msgspec with the body's types; a field of type bytes is decoded by it."""
    document = _DECODER.decode(body.text)
    arrays = [np.frombuffer(e.data, e.dtype).reshape(e.shape) for e in (c.routed_experts for c in document.choices)]
    return document, arrays


def msgspec_raw(body: Body) -> Any:
    """msgspec with the base64 left as it stands, and pybase64 on that."""
    document = _RAW_DECODER.decode(body.text)
    arrays: list[NDArray[Any]] = []
    for choice in document.choices:
        text = memoryview(choice.routed_experts.data)[1:-1]
        blob = _pybase64(text)
        arrays.append(np.frombuffer(blob, choice.routed_experts.dtype).reshape(choice.routed_experts.shape))
    return document, arrays


def ijson_push(body: Body, chunks: list[bytes]) -> Any:
    """ijson, fed chunk by chunk, and pybase64 on the strings that it gives."""
    choices: list[Any] = []
    receive = ijson.sendable_list()
    push = ijson.items_coro(receive, "choices.item", use_float=True)
    for chunk in chunks:
        push.send(chunk)
        choices += receive
        receive.clear()
    return _decoded({"choices": choices}, body.name, _pybase64)


def json_list(body: Body) -> Any:
    """A nested list through the standard library and NumPy."""
    return np.array(json.loads(body.text)[body.name])


def parse_list(body: Body) -> Any:
    """A nested list through orjson and NumPy."""
    return np.array(orjson.loads(body.text)[body.name])


def ndwire_whole(body: Body) -> Any:
    """ndwire, one call."""
    return loads(body.text, body.fields)


def ndwire_chunks(body: Body, chunks: list[bytes]) -> Any:
    """ndwire, fed chunk by chunk."""
    parser = Parser(body.fields, content_length=len(body.text))
    for chunk in chunks:
        parser.feed(chunk)
    return parser.close()
