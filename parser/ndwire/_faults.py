"""What a JSON parser's complaint means for the body: broken, or cut short?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson

from ndwire._errors import IncompleteBody, MalformedJSON, WireError

_OUT_OF_MEMORY: Final = "failed to allocate memory"
# orjson sizes its memory by the length of the text, and runs out of it where short text nests deep.
_PADDING_FACTOR: Final = 32


def json_fault(
    text: bytes | bytearray, exc: ValueError, *, locate: Callable[[int], int], body_length: int
) -> WireError:
    """Return the error for text that a JSON parser refused with ``exc``.

    Args:
        text: What was parsed. It reaches to the end of the body, or holds a whole value.
        exc: The JSON parser's error.
        locate: Maps an offset in ``text`` to one in the body.
        body_length: The length of the body, for ``IncompleteBody``.
    """
    reason, position = _judge(bytes(text), exc)
    if position == len(text):
        return IncompleteBody("the body ends before its JSON document does", offset=body_length)
    return MalformedJSON(f"the body is not JSON: {reason}", offset=None if position is None else locate(position))


def _judge(text: bytes, exc: ValueError) -> tuple[str, int | None]:
    """Return what is wrong, and the offset in ``text`` of the fault; the length of ``text`` if it is only cut."""
    try:
        characters = text.decode()
    except UnicodeDecodeError as bad:
        if bad.end == len(text) and bad.reason == "unexpected end of data":
            # The end of the body cuts a character. What stands before it may still be broken.
            reason, position = _judge(text[: bad.start], exc)
            return (reason, position) if position is not None and position < bad.start else (reason, len(text))
        return "invalid UTF-8", bad.start
    if not text.strip(b" \t\n\r"):
        return "it is empty", len(text)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if error.msg == _OUT_OF_MEMORY and not text.endswith(b" "):
            reason, position = _judge(text + b" " * (_PADDING_FACTOR * len(text)), exc)
            return reason, position if position is None else min(position, len(text))
        return error.msg, min(len(characters[: error.pos].encode()), len(text))
    # The caller's own parser is stricter than orjson, and only it knows where.
    position = getattr(exc, "pos", None)
    return str(exc), len(characters[:position].encode()) if isinstance(position, int) else None
