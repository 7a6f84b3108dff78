"""Parsing what remains of a body, and what a JSON parser's complaint means for it: broken, or cut short?"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import orjson

from ndwire._contract.errors import IncompleteBody, MalformedJSON, WireError
from ndwire._contract.types import JSONLoads

BYTE_ORDER_MARK: Final = codecs.BOM_UTF8

_OUT_OF_MEMORY: Final = "failed to allocate memory"
# orjson sizes its memory by the length of the text, and runs out of it where little text nests deep. So much white
# space before the text is enough for the 1,024 levels that it takes.
_PADDING: Final = b" " * (64 << 10)
# So much text is looked at at a time, without a copy of all of it.
_WINDOW: Final = 1 << 20
_CONTINUATION_MASK: Final = 0xC0
_CONTINUATION: Final = 0x80
_NOT_FINITE: Final = (b"NaN", b"Infinity", b"-Infinity")
_TOLERANT: Final = "json_loads=json.loads reads it"


def parsed(
    text: bytes | bytearray | memoryview,
    json_loads: JSONLoads,
    *,
    locate: Callable[[int], int],
    body_length: int,
    is_callers: bool = True,
) -> Any:
    """Return what ``json_loads`` makes of ``text``.

    Args:
        text: JSON that reaches to the end of the body, or a whole value.
        json_loads: The parser.
        locate: Maps an offset in ``text`` to one in the body.
        body_length: The length of the body, for ``IncompleteBody``.
        is_callers: Whether the parser is the caller's choice, so that the message may name another one.

    Raises:
        MalformedJSON: The parser refused the text, or it nests deeper than the parser can follow.
        IncompleteBody: It ends early.
    """
    try:
        return json_loads(text)
    except ValueError as exc:
        raise _json_fault(text, exc, locate=locate, body_length=body_length, is_callers=is_callers) from exc
    except RecursionError as exc:
        raise MalformedJSON("the body is not JSON: it nests too deep for its parser") from exc


def _json_fault(
    text: bytes | bytearray | memoryview,
    exc: ValueError,
    *,
    locate: Callable[[int], int],
    body_length: int,
    is_callers: bool,
) -> WireError:
    """Return the error for text that a JSON parser refused with ``exc``. See ``parsed``."""
    tolerant = False
    if type(exc) is orjson.JSONDecodeError:
        # It holds the whole text once more, with up to four bytes for each character.
        exc.doc = ""
        tolerant = is_callers
    text = bytes(text)
    reason, position = _judge(text, exc)
    if position == len(text):
        return IncompleteBody("the body ends before its JSON document does", offset=body_length)
    if position is None:
        return MalformedJSON(f"the body is not JSON: {reason}")
    if tolerant and _is_read_by_others(text, reason, position):
        reason = f"{reason}; {_TOLERANT}"
    return MalformedJSON(f"the body is not JSON: {reason}", offset=locate(position))


def _judge(text: bytes, exc: ValueError) -> tuple[str, int | None]:
    """Return what is wrong, and the offset in ``text`` of the fault; the length of ``text`` if it is only cut."""
    bad = _undecodable(text)
    if bad is not None:
        begin, is_cut = bad
        if not is_cut:
            return "invalid UTF-8", begin
        # The end of the body cuts a character. What stands before it may still be broken.
        reason, position = _judge(text[:begin], exc)
        return (reason, position) if position is not None and position < begin else (reason, len(text))
    if not text.strip(b" \t\n\r"):
        return "it is empty", len(text)
    fault = _orjson_fault(text)
    if fault is not None:
        return fault[0], _offset_of_character(text, fault[1])
    # The caller's own parser is stricter than orjson, and only it knows where.
    position = getattr(exc, "pos", None)
    return str(exc), _offset_of_character(text, position) if isinstance(position, int) else None


def _orjson_fault(text: bytes, padding: bytes = b"") -> tuple[str, int] | None:
    """Return what orjson says of ``text``, and the character that it stopped at; None if it takes the text."""
    try:
        orjson.loads(padding + text)
    except orjson.JSONDecodeError as error:
        if error.msg == _OUT_OF_MEMORY and not padding:
            return _orjson_fault(text, _PADDING)
        return error.msg, error.pos - len(padding)
    return None


def _undecodable(text: bytes) -> tuple[int, bool] | None:
    """Return where ``text`` is no UTF-8, and whether only the end of it cuts a character; None if it is UTF-8."""
    begin = 0
    while begin < len(text):
        window = text[begin : begin + _WINDOW]
        try:
            window.decode()
            begin += len(window)
        except UnicodeDecodeError as bad:
            is_cut = bad.end == len(window) and bad.reason == "unexpected end of data"
            if not is_cut or begin + bad.end == len(text):
                return begin + bad.start, is_cut
            begin += bad.start
    return None


def _offset_of_character(text: bytes, character: int) -> int:
    """Return the offset in ``text``, which is UTF-8, of the character of that number; its length if it has fewer."""
    for begin in range(0, len(text), _WINDOW):
        octets = np.frombuffer(text, np.uint8, min(_WINDOW, len(text) - begin), begin)
        starts = np.flatnonzero((octets & _CONTINUATION_MASK) != _CONTINUATION)
        if character < len(starts):
            return begin + int(starts[character])
        character -= len(starts)
    return len(text)


def _is_read_by_others(text: bytes, reason: str, position: int) -> bool:
    """Return whether the fault is one of what Python's own json reads: numbers that are not finite, lone surrogates."""
    minus = position - 1 if text[position - 1 : position] == b"-" else position
    return text.startswith(_NOT_FINITE, minus) or "surrogate" in reason
