"""Server, client and a conversation of three turns on loopback: ``python -m examples.vllm.demo``.

Every number is checked: the routed experts with the middleware are those without it, those of the turns are those of
the whole conversation, and the batch holds the traces. ``--url`` asks a server that runs already, such as vLLM's own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import httpx
import numpy as np
from examples.quickstart import Meter
from examples.vllm.client import Choice, GenerateClient
from rich.console import Console
from rich.table import Table

import ndwire
from ndwire import presets
from ndwire.rl import RoutedExpertTrace, collate


@contextlib.contextmanager
def serving(*options: str) -> Generator[str, None, None]:
    """Run the server in a process of its own, on a free port of loopback; give its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "examples.vllm.server", "--port", str(port), *options]
    process = subprocess.Popen(command, cwd=pathlib.Path(__file__).parents[2])
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url + "/health", timeout=5).status_code == 200:
                    break
            check("the server starts", process.poll() is None and time.monotonic() < deadline)
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()


def check(what: str, holds: bool) -> None:
    """Stop with a message where something is not as it should be."""
    if not holds:
        raise SystemExit(f"not so: {what}")


async def converse(
    client: GenerateClient, turns: int, tokens: int, table: Table
) -> tuple[RoutedExpertTrace, list[int]]:
    """Talk for some turns, each of which goes on where the last one ended; return the trace and all tokens."""
    conversation = list(range(1, 9))
    trace = RoutedExpertTrace()
    for turn in range(turns):
        async with Meter(memory=False) as meter:
            generation = await client.generate(
                conversation, max_tokens=tokens, logprobs=True, start=trace.n_rows, temperature=0.0, ignore_eos=True
            )
        choice: Choice = generation.choices[0]
        check("the server sends routed experts", choice.routed_experts is not None)
        assert choice.routed_experts is not None  # checked
        assert choice.logprobs is not None  # asked for
        conversation += choice.token_ids.tolist()
        trace.append(choice.routed_experts, start=generation.start, n_tokens=len(conversation))
        check("there is a log-probability for each token", len(choice.logprobs) == len(choice.token_ids) == tokens)
        rows = choice.routed_experts.array
        table.add_row(
            f"{turn + 1}",
            f"{len(conversation):,}",
            f"{rows.dtype} {rows.shape}",
            f"{meter.seconds * 1000:.0f} ms",
            f"{meter.stall * 1000:.1f} ms",
        )
        conversation += [11 + turn, 12 + turn]  # what the user says next
    return trace, conversation[:-2]


async def run(url: str, turns: int, tokens: int, console: Console) -> None:
    """Talk, and check every number."""
    table = Table("turn", "tokens so far", "routed experts", "time", "longest stall", title="A conversation")
    async with GenerateClient(url) as client:
        trace, conversation = await converse(client, turns, tokens, table)
        console.print(table)
        experts, mask = trace.finalize(len(conversation))
        check("every token but the last has a row", mask.tolist() == [True] * (len(conversation) - 1) + [False])
        # The same tokens as one prompt: its rows are those of the turns.
        whole = await client.generate(conversation, max_tokens=1, temperature=0.0)
        at_once = whole.choices[0].routed_experts
        assert at_once is not None  # the turns had them
        same = np.mean(at_once.array[: len(conversation) - 1] == experts[:-1])
        console.print(f"{same:.1%} of the experts are those of the whole conversation as one prompt")
        check("at least nine tenths of the experts are the same", bool(same > 0.9))
        streamed = await client.generate(conversation, max_tokens=4, stream=True, temperature=0.0)
        whole = await client.generate(conversation, max_tokens=4, temperature=0.0)
        same_tokens = np.array_equal(streamed.choices[0].token_ids, whole.choices[0].token_ids)
        check("a stream gives the same tokens", same_tokens)
        whole = await client.generate(conversation, max_tokens=4, n=2, temperature=1.0)
        check("there are two samples", [choice.index for choice in whole.choices] == [0, 1])
        traces = [experts, *(item.routed_experts.array for item in whole.choices if item.routed_experts is not None)]
        batch = collate(traces)
        for row, array in zip(batch, traces, strict=True):
            check("the batch holds the traces", np.array_equal(row[: len(array)], array))
        console.print(f"batch: {batch.dtype} {batch.shape}")


def show(url: str, console: Console) -> None:
    """Ask with and without the header, compare the arrays, and print what came."""
    request = {"token_ids": list(range(1, 9)), "sampling_params": {"max_tokens": 8, "temperature": 0.0}}
    table = Table("Prefer", "Preference-Applied", "bytes", "routed_experts", title="The same request twice")
    arrays: list[Any] = []
    for headers in ({}, dict([ndwire.PREFER])):
        response = httpx.post(url + "/inference/v1/generate", json=request, headers=headers, timeout=120)
        document = ndwire.loads(response.content, presets.VLLM)
        arrays.append(document["choices"][0]["routed_experts"])
        begin = response.content.index(b'"routed_experts":') + len(b'"routed_experts":')
        table.add_row(
            headers.get("Prefer", "-"),
            response.headers.get("preference-applied", "-"),
            str(len(response.content)),
            response.text[begin : begin + 40] + "...",
        )
    console.print(table)
    check("the arrays are equal", np.array_equal(*arrays) and arrays[0].size > 0)
    console.print("The arrays are equal.")
    console.print(f"digest of the routed experts: {hashlib.blake2b(arrays[0].tobytes(), digest_size=8).hexdigest()}")


def main() -> None:
    """Serve, or ask a server that runs; talk; check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=10_900, help="sampled in each turn (default: %(default)s)")
    arguments = parser.parse_args()
    console = Console(width=120)
    if arguments.url:
        show(arguments.url, console)
        asyncio.run(run(arguments.url, arguments.turns, arguments.tokens, console))
    else:
        model = ("--layers", "48", "--top-k", "8", "--experts", "128", "--vocabulary", "150000")
        for options in (("--middleware",), ()):
            console.print("with the middleware:" if options else "without it:")
            with serving(*model, *options) as url:
                show(url, console)
                asyncio.run(run(url, arguments.turns, arguments.tokens, console))
    console.print("Every number is right.")


if __name__ == "__main__":
    main()
