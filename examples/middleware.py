"""An app that returns plain lists, and the middleware that sends them as arrays to whoever asks.

``python examples/middleware.py`` serves it on loopback and asks three times: as any JSON client, for envelopes, and for
a stream of events. ``uvicorn examples.middleware:app`` serves it for you.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import socket
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.responses import StreamingResponse

import ndwire
from ndwire_asgi import NDArrayMiddleware, Rewritten

LAYERS, TOP_K = 48, 8
SERVER_FIELDS = [
    # What the app sends as nested lists goes out as the first of these dtypes that holds the numbers.
    ndwire.Field("routed_experts", dtypes=("uint8", "int16", "int32"), ndim=3),
    ndwire.Field("logprobs", dtypes=("float32",), ndim=1),
]
CLIENT_FIELDS = SERVER_FIELDS  # the same serve the client

logger = logging.getLogger("example")


def count(facts: Rewritten) -> None:
    """Take what was rewritten into your metrics."""
    logger.info("%s: %d bytes became %d", facts.scope["path"], facts.n_bytes_before, facts.n_bytes_after)


app = FastAPI()
app.add_middleware(NDArrayMiddleware, fields=SERVER_FIELDS, on_rewrite=count)


def sample(tokens: int) -> dict[str, Any]:
    """Return what a model might have said, in plain lists."""
    chance = random.Random(tokens)
    return {
        "text": "hello",
        "logprobs": [-chance.expovariate(1) for _ in range(tokens)],
        "routed_experts": [
            [[chance.randrange(128) for _ in range(TOP_K)] for _ in range(LAYERS)] for _ in range(tokens)
        ],
    }


@app.get("/generate")
def generate(tokens: int = 200) -> dict[str, Any]:
    """One document."""
    return {"choices": [sample(tokens)]}


@app.get("/stream")
def stream(tokens: int = 200) -> StreamingResponse:
    """An event for each part of it."""

    def events() -> Iterator[str]:
        for part in range(4):
            yield f"data: {json.dumps({'part': part, **sample(tokens // 4)})}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@contextlib.contextmanager
def serving() -> Generator[str, None, None]:
    """Serve the app on a free port of loopback; give its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def main() -> None:
    """Serve and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=200, help="how long the sample is")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(name)s: %(message)s")
    logger.setLevel(logging.INFO)
    query = {"tokens": arguments.tokens}
    asking = dict([ndwire.PREFER])
    with serving() as url, httpx.Client(base_url=url, timeout=60) as client:
        plain = client.get("/generate", params=query)
        print(f"as any client: {len(plain.content):,} bytes, lists of {len(plain.json()['choices'][0]['logprobs'])}")

        with client.stream("GET", "/generate", params=query, headers=asking) as response:
            choice = ndwire.load_response(response, CLIENT_FIELDS)["choices"][0]
        routes = choice["routed_experts"]
        print(f"for envelopes: {response.num_bytes_downloaded:,} bytes, {routes.dtype} of shape {routes.shape}")
        assert routes.tolist() == plain.json()["choices"][0]["routed_experts"]

        with client.stream("GET", "/stream", params=query, headers=asking) as response:
            for event in ndwire.iter_sse(response, CLIENT_FIELDS):
                print(f"event {event['part']}: {event['routed_experts'].shape}, {event['logprobs'].dtype}")


if __name__ == "__main__":
    main()
