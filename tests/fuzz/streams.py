"""The laws of streams: each document reads as it reads alone, and cuts change nothing.

Source: the WHATWG HTML standard, section 9.2; NDJSON.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fuzz.generate import GRAMMATICAL
from fuzz.grammar import Grammar
from ndwire import IncompleteBody, MalformedJSON, WireError, iter_ndjson, iter_sse, loads
from support.chunking import partition, plain

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_ENDS: Final = (b"\n", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\n\n")
_HEADS: Final = (
    *(b"data:", b"data: ", b"data: ", b"data: ", b"data", b"", b":", b"id:", b"event: ", b" data:", b"error: "),
)
_LINES: Final = (
    *(b"data: [DONE]", b"data: [DONE]          x", b"data:[DONE] \t", b": ping", b"id: 7", b"event: e", b"id: \x00"),
)

Read = Callable[..., Iterable[Any]]
Error = tuple[type[WireError], int | None]


def a_stream(chance: random.Random) -> bytes:
    """Return lines of documents, fields of events, and junk."""
    grammar = Grammar(chance)
    out = [_BYTE_ORDER_MARK * (chance.random() < 0.1)]
    for _ in range(chance.randrange(6)):
        line = grammar.body() if chance.random() < 0.3 else grammar.single()
        if chance.random() < 0.6:
            line = chance.choice(_HEADS) + line.replace(b"\n", chance.choice((b"\ndata:", b"\n", b"")))
        if chance.random() < 0.3:
            line = chance.choice(_LINES)
        out += line, chance.choice(_ENDS) * (chance.random() < 0.95)
    return b"".join(out)


def lines_are_documents(body: bytes, chance: random.Random) -> None:
    """Each line of NDJSON that is not blank reads as a body, up to the first that is none."""
    lines = body.split(b"\n")
    _reads_as(iter_ndjson, body, (line for line in lines if line.removeprefix(_BYTE_ORDER_MARK).strip(_BLANK)), chance)


def events_follow_the_standard(body: bytes, chance: random.Random) -> None:
    """The data of each event reads as a body, up to ``[DONE]`` or the first that is none."""
    _reads_as(iter_sse, body, _events(body), chance)


def _events(body: bytes) -> Iterator[bytes]:
    """Yield the data of the events, the unfinished one as well, up to the one that says that the stream is over."""
    data: list[bytes] = []
    *lines, last = re.split(rb"\r\n|\r|\n", body.removeprefix(_BYTE_ORDER_MARK))
    # Whether a name is all there is known by what follows it.
    for line in [*lines, *([last] if b":" in last else []), b""]:
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif not line:
            text = b"\n".join(data)
            data = []
            if text.strip(_BLANK) == b"[DONE]":
                return
            if text.removeprefix(_BYTE_ORDER_MARK).strip(_BLANK):
                yield text


def _reads_as(
    read: Callable[..., Iterable[Any]], body: bytes, documents: Iterable[bytes], chance: random.Random
) -> None:
    fields = chance.choice(GRAMMATICAL)
    wanted, wanted_error = _collected(loads(document, fields) for document in documents)
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 5))]
    whole = _collected(read([body], fields))
    for chunks in ([body[at : at + 1] for at in range(len(body))], partition(body, cuts)):
        got = _collected(read(chunks, fields))
        assert got == whole, f"cuts: {body!r} in {chunks} with {fields}: {got} is not {whole}"
    got_documents, got_error = whole
    assert got_documents == wanted, f"documents: {body!r} with {fields}: {got_documents} is not {wanted}"
    if wanted_error is None and got_error is not None:
        # The rest of a stream may be no stream; no document of it is broken.
        assert got_error[0] in (MalformedJSON, IncompleteBody), f"error: {body!r} with {fields}: {got_error}"
    else:
        assert got_error == wanted_error, f"error: {body!r} with {fields}: {got_error} is not {wanted_error}"


def _collected(documents: Iterable[Any]) -> tuple[list[Any], Error | None]:
    """Return what comes before the end or an error, and the error."""
    out: list[Any] = []
    try:
        for document in documents:
            out.append(plain(document))  # noqa: PERF401  # what came before an error counts
    except WireError as error:
        return out, (type(error), error.offset)
    return out, None
