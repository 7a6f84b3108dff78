"""Reads ``Prefer`` and ``Preference-Applied``: in linear time, whatever they hold, and without ever raising.

The grammar has no errors here. What does not fit it belongs to the value before it, which then is no known one; a
quoted string that nothing closes ends with its header line.

Source: RFC 7240 section 2 (preferences), RFC 9110 sections 5.6.1 (lists) and 5.6.4 (quoted strings).
"""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = rb'"(?:[^"\\]++|\\.)*+"'
# One preference: its name; its value, quoted or not; what follows up to a comma outside of quotes. Every part is
# possessive, so that no byte is looked at again, and all may be empty, so that a match never fails.
_PREFERENCE: Final = re.compile(
    rb"[ \t]*+(?P<name>[^=;,\"]*+)(?:=[ \t]*+(?P<value>" + _QUOTED + rb'|[^;,"]*+))?+'
    rb"[ \t]*+(?P<rest>(?:[^,\"]++|" + _QUOTED + rb'|".*+)*+),?+',
    re.DOTALL,
)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)


def first_preference(header: bytes, name: bytes) -> bytes | None:
    """Return the value of the first preference of one name in a header line.

    Args:
        header: The header's value.
        name: The preference's name, in lower case.

    Returns:
        The value without its quotes, empty where there is none, or None if the preference is not there.
    """
    if name not in header.lower():
        return None
    for match in _PREFERENCE.finditer(header):
        if match["name"].rstrip(b" \t").lower() == name:
            value = match["value"] or b""
            if match["rest"][:1] not in (b"", b";"):
                return value + match["rest"]
            return _ESCAPED.sub(rb"\1", value[1:-1]) if value.startswith(b'"') else value.rstrip(b" \t")
    return None
