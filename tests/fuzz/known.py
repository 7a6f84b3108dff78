"""What is known to break a law and not mended yet: the only place where that is written down."""

from __future__ import annotations

from typing import Any, Final

import pytest

KNOWN: Final[dict[str, str]] = {}
"""By the name of a law or a case: why it breaks. The tests of those may fail; without an entry they may not."""


def cases(*names: str) -> list[Any]:
    """Return ``names`` as parameters of a test, of which the known ones may fail."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=KNOWN[name], strict=False)) if name in KNOWN else name
        for name in names
    ]
