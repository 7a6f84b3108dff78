"""NDJSON, sans-IO: one document per line.

Source: the NDJSON specification. Lines end with LF; a CR before it is white space of JSON. Blank lines are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndwire._contract.strings import skip_space
from ndwire._http.framing import Document, Framing
from ndwire._reading.parser import Parser


class NDJSON(Framing):
    """Cuts a stream of lines into documents.

    Args:
        new_parser: Makes the parser of one line's document.
        line_bytes: What that parser allows a blank line to have. Longer ones are its business.
    """

    def __init__(self, new_parser: Callable[[], Parser], *, line_bytes: int) -> None:
        super().__init__(new_parser)
        self._line_bytes = line_bytes

    def _scan(self, data: bytes, out: list[Any]) -> None:
        start = 0
        while start < len(data):
            if self._document is None:
                start = self._behind_blank_lines(data, start)
                if start == len(data):
                    return
                self._document = Document(self._new_parser)
            end = data.find(b"\n", start)
            self._document.add(data[start : end if end >= 0 else len(data)])
            if end < 0:
                return
            self._finish(out)
            start = end + 1

    def _behind_blank_lines(self, data: bytes, start: int) -> int:
        last = data.rfind(b"\n", start, skip_space(data, start))
        return last + 1 if last >= 0 and last - start <= self._line_bytes else start

    def _finish(self, out: list[Any]) -> None:
        document, self._document = self._document, None
        if document is not None and not document.is_blank:
            out.append(document.close())
