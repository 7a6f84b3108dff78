"""The ways people read such bodies today, written from the published ideas."""

from __future__ import annotations

import re
from typing import Any

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


def _place(document: Any, name: str, arrays: list[NDArray[Any]]) -> Any:
    holders = document["choices"] if "choices" in document else document["data"]
    for holder, array in zip(holders, arrays, strict=True):
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
        blob = pybase64.b64decode_as_bytearray(view[match.end() : quote], None, True)
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


def parse_then_decode(body: Body) -> Any:
    """orjson for everything, then pybase64 on the strings."""
    document = orjson.loads(body.text)
    holders = document["choices"] if "choices" in document else document["data"]
    arrays: list[NDArray[Any]] = []
    for holder in holders:
        envelope = holder[body.name]
        blob = pybase64.b64decode_as_bytearray(envelope["data"], None, True)
        arrays.append(np.frombuffer(blob, envelope["dtype"]).reshape(envelope["shape"]))
    return _place(document, body.name, arrays)


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
