"""The conformance vectors and the recordings."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import pytest

from ndwire import Field

ROOT = pathlib.Path(__file__).parents[1]
RECORDINGS = ROOT / "recordings"


def recording(name: str) -> bytes:
    """Return the bytes of a recorded body."""
    return (RECORDINGS / name).read_bytes()


class Vector:
    """One case: a body, the fields that it is read with, and what is expected."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.id: str = case["id"]
        self.fields = [Field(**arguments) for arguments in case["fields"]]
        self.body: bytes = case["body"].encode() if "body" in case else base64.b64decode(case["body_base64"])
        self.expect: dict[str, Any] = case["expect"]


def vectors(*names: str) -> pytest.MarkDecorator:
    """Parametrize a test with the cases of the named files."""
    cases = [
        pytest.param(Vector(case), id=f"{name}-{case['id']}")
        for name in names
        for case in json.loads((ROOT / "vectors" / f"{name}.json").read_text())
    ]
    return pytest.mark.parametrize("vector", cases)
