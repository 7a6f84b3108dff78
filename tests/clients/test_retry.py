"""The retry example against a server that misbehaves in each way."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import httpx
import numpy as np
import pytest

from ndwire import CompressedBody, IncompleteBody, MalformedArray, MalformedJSON, dumps
from support.rawserver import answer, chunked, saying

PATH = pathlib.Path(__file__).parents[2] / "examples" / "retry.py"
spec = importlib.util.spec_from_file_location("retry_example", PATH)
assert spec is not None
assert spec.loader is not None
retry: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(retry)

BODY = dumps({"choices": [{"routed_experts": np.arange(24, dtype=np.uint8).reshape(4, 3, 2)}]})
GOOD = answer(BODY, b"Content-Length: %d" % len(BODY))
BROKEN = BODY.replace(b'"dtype":"uint8"', b'"dtype":"uint9"')
WORTH_IT = {
    "a dropped connection": b"",
    "a gateway's page": answer(b"<html>upstream</html>"),
    **{
        f"a status {status}": answer(b"{}", status=b"%d Status" % status)
        for status in (408, 425, 429, 500, 502, 503, 504)
    },
    "a body that is cut under its length": answer(BODY[:70], b"Content-Length: %d" % len(BODY)),
    "a body that ends with the connection": answer(BODY[:70]),
    "a chunk that is cut": answer(chunked(BODY[:70], end=False), b"Transfer-Encoding: chunked"),
}
NOT_WORTH_IT = {
    "a broken contract": (answer(BROKEN), MalformedArray),
    **{
        f"a status {status}": (answer(b"{}", status=b"%d Status" % status), httpx.HTTPStatusError)
        for status in (400, 401, 404, 422, 501)
    },
    "a body that is still packed": (answer(b"\x1f\x9d" + BODY, b"Content-Encoding: compress"), CompressedBody),
}


def fetch(url: str) -> Any:
    with httpx.Client() as client:
        return retry.fetch_patiently(client, url, attempts=3, longest_wait=0.01)


@pytest.mark.parametrize("name", WORTH_IT)
def test_what_may_help_is_tried_again(name: str) -> None:
    with saying(WORTH_IT[name], GOOD) as (url, requests):
        document = fetch(url)
    assert document["choices"][0]["routed_experts"].shape == (4, 3, 2)
    assert len(requests) == 2
    assert b"ndarray=envelope" in requests[0]


@pytest.mark.parametrize("name", NOT_WORTH_IT)
def test_what_cannot_help_is_not(name: str) -> None:
    bad, error = NOT_WORTH_IT[name]
    with saying(bad, GOOD) as (url, requests), pytest.raises(error):
        fetch(url)
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [(WORTH_IT["a gateway's page"], MalformedJSON), (WORTH_IT["a body that ends with the connection"], IncompleteBody)],
)
def test_not_for_ever(bad: bytes, error: type[Exception]) -> None:
    with saying(bad) as (url, requests), pytest.raises(error):
        fetch(url)
    assert len(requests) == 3
