"""Ask again for what the network or a gateway broke, and for nothing else.

``WireError.retryable`` says which is which; the rest is tenacity's: attempts, backoff, the last error raised as it is.
Run it against a server: ``python examples/retry.py http://127.0.0.1:8000/generate``.
"""

from __future__ import annotations

import sys
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

import ndwire
from ndwire import presets

# Time-outs, too early, too many, and what servers that restart or their gateways say; everything else is an answer.
RETRYABLE_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))


def worth_another_try(error: BaseException) -> bool:
    """Transport errors, overloaded servers, gateways' pages and short bodies are; a broken contract is not."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in RETRYABLE_STATUS
    return isinstance(error, httpx.TransportError) or (isinstance(error, ndwire.WireError) and error.retryable)


def fetch(client: httpx.Client, url: str, fields: tuple[ndwire.Field, ...] = presets.VLLM) -> Any:
    """Fetch one document, once."""
    with client.stream("GET", url, headers={"Prefer": "ndarray=envelope"}) as response:
        response.raise_for_status()
        return ndwire.load_response(response, fields)


def fetch_patiently(client: httpx.Client, url: str, *, attempts: int = 4, longest_wait: float = 10.0) -> Any:
    """Fetch one document, asking again where that may help."""
    retrying = Retrying(
        retry=retry_if_exception(worth_another_try),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.1, max=longest_wait),
        reraise=True,
    )
    return retrying(fetch, client, url)


if __name__ == "__main__":
    with httpx.Client(timeout=60) as http:
        print(fetch_patiently(http, sys.argv[1]))
