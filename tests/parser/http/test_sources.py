"""What can be read from besides chunks: bytes, and files of many kinds."""

from __future__ import annotations

import array
import asyncio
import bz2
import gzip
import io
import mmap
import pathlib
import tempfile
import urllib.request
import zipfile
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from ndwire import (
    Field,
    IncompleteBody,
    aiter_ndjson,
    aiter_sse,
    aload,
    aload_response,
    dumps,
    iter_ndjson,
    iter_sse,
    load,
    load_response,
)

FIELDS = (Field("a"),)
ARRAY = np.arange(300_000, dtype=np.int32).reshape(3, 100_000)
LINE = dumps({"a": ARRAY})
LINES = LINE + b"\n\n" + LINE + b"\n"
EVENTS = b"data: " + LINE + b"\n\ndata: " + LINE + b"\n\n"
BUFFERS: list[Callable[[bytes], Any]] = [
    bytes,
    bytearray,
    memoryview,
    lambda body: array.array("B", body),
    lambda body: np.frombuffer(body, np.uint8),
]


def opened(kind: str, body: bytes, folder: pathlib.Path) -> Any:
    path = folder / "body"
    match kind:
        case "gzip":
            path.write_bytes(gzip.compress(body))
            return gzip.open(path)
        case "bz2":
            path.write_bytes(bz2.compress(body))
            return bz2.open(path)
        case "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("body", body)
            return zipfile.ZipFile(path).open("body")
        case "temporary":
            file = tempfile.NamedTemporaryFile()  # noqa: SIM115  # the test closes it
            file.write(body)
            file.seek(0)
            return file
        case "BytesIO":
            return io.BytesIO(body)
        case "url of a file":
            path.write_bytes(body)
            return urllib.request.urlopen(path.as_uri())
        case _:
            path.write_bytes(body)
            return path.open("rb", buffering=0 if kind == "unbuffered" else -1)


KINDS = ["file", "unbuffered", "gzip", "bz2", "zip", "temporary", "BytesIO", "url of a file"]


@pytest.mark.parametrize("kind", KINDS)
def test_files(kind: str, tmp_path: pathlib.Path) -> None:
    for read, body in ((iter_ndjson, LINES), (iter_sse, EVENTS)):
        with opened(kind, body, tmp_path) as file:
            found = list(read(file, FIELDS))
        assert len(found) == 2
        assert all(np.array_equal(document["a"], ARRAY) for document in found)
    with opened(kind, LINE, tmp_path) as file:
        assert np.array_equal(load(file, FIELDS)["a"], ARRAY)
    with opened(kind, LINE[:-1], tmp_path) as file, pytest.raises(IncompleteBody):
        load_response(file, FIELDS)


def test_files_asynchronously(tmp_path: pathlib.Path) -> None:
    class Asynchronous:
        """A file as aiofiles gives it: its iteration gives lines."""

        def __init__(self, body: bytes) -> None:
            self.file = io.BytesIO(body)

        async def read(self, size: int) -> bytes:
            await asyncio.sleep(0)
            return self.file.read(min(size, 10_000))

        async def __aiter__(self) -> AsyncIterator[bytes]:
            raise AssertionError("gives lines")
            yield b""

    async def run(make: Callable[[bytes], Any]) -> None:
        for read, body in ((aiter_ndjson, LINES), (aiter_sse, EVENTS)):
            found = [document async for document in read(make(body), FIELDS)]
            assert len(found) == 2
            assert all(np.array_equal(document["a"], ARRAY) for document in found)
        assert np.array_equal((await aload(make(LINE), FIELDS))["a"], ARRAY)

    asyncio.run(run(Asynchronous))
    asyncio.run(run(io.BytesIO))
    for read in (load, lambda *of: list(iter_ndjson(*of)), lambda *of: list(iter_sse(*of))):
        with pytest.raises(TypeError, match="asynchronous: use aload"):
            read(Asynchronous(LINE), FIELDS)

    class Awaitable:
        def read(self, _: int) -> Any:
            return asyncio.Future(loop=loop)

    loop = asyncio.new_event_loop()
    with pytest.raises(TypeError, match="asynchronous: use aload"):
        load(Awaitable(), FIELDS)
    loop.close()


def test_an_asyncio_stream_is_read_in_pieces() -> None:
    async def run() -> None:
        reader = asyncio.StreamReader(limit=100)
        reader.feed_data(LINES)
        reader.feed_eof()
        assert len([document async for document in aiter_ndjson(reader, FIELDS)]) == 2

    asyncio.run(run())


@pytest.mark.parametrize("make", BUFFERS)
def test_bytes_count_as_one_chunk(make: Callable[[bytes], Any]) -> None:
    async def run() -> None:
        assert np.array_equal((await aload(make(LINE), FIELDS))["a"], ARRAY)
        assert len([document async for document in aiter_ndjson(make(LINES), FIELDS)]) == 2
        assert len([document async for document in aiter_sse(make(EVENTS), FIELDS)]) == 2

    assert np.array_equal(load(make(LINE), FIELDS)["a"], ARRAY)
    assert len(list(iter_ndjson(make(LINES), FIELDS))) == 2
    assert len(list(iter_sse(make(EVENTS), FIELDS))) == 2
    asyncio.run(run())


def test_a_mapped_file_is_bytes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(LINES)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert len(list(iter_ndjson(mapped, FIELDS))) == 2


def test_bytes_are_decoded_into_memory_of_their_size() -> None:
    asked: list[int] = []

    def allocate(name: str, n_bytes: int) -> Any:
        asked.append(n_bytes)
        return np.empty(n_bytes, np.uint8)

    load(LINE, FIELDS, allocate=allocate)
    assert asked[0] < ARRAY.nbytes + 100


def read_all(read: Any, source: Any) -> Any:
    if read in (load, load_response):
        return read(source, FIELDS)
    if read in (aload, aload_response):
        return asyncio.run(read(source, FIELDS))
    if read in (iter_ndjson, iter_sse):
        return list(read(source, FIELDS))

    async def run() -> None:
        async for _ in read(source, FIELDS):
            pass

    return asyncio.run(run())


SYNC = [load, iter_ndjson, iter_sse]
ASYNC = [aload, aiter_ndjson, aiter_sse]


@pytest.mark.parametrize("read", [*SYNC, *ASYNC])
def test_text_is_refused_with_what_to_pass(read: Any, tmp_path: pathlib.Path) -> None:
    for text in ("", "{}\n"):
        with pytest.raises(TypeError, match=r"the source must be bytes-like, not str: pass the bytes"):
            read_all(read, text)
        path = tmp_path / "text"
        path.write_text(text)
        with path.open() as file, pytest.raises(TypeError, match='open it with "rb"'):
            read_all(read, file)
        with pytest.raises(TypeError, match='open it with "rb"'):
            read_all(read, io.StringIO(text))
    with pytest.raises(TypeError, match='opened with "rb"'):
        read_all(read, pathlib.Path("x"))
    for source in (5, None):
        with pytest.raises(TypeError, match="nothing to read from"):
            read_all(read, source)


@pytest.mark.parametrize("read", SYNC)
def test_asynchronous_chunks_need_an_asynchronous_reader(read: Any) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b""

    with pytest.raises(TypeError, match="asynchronous: use aload"):
        read_all(read, chunks())


@pytest.mark.parametrize("read", ASYNC)
def test_synchronous_chunks_need_a_synchronous_reader(read: Any) -> None:
    with pytest.raises(TypeError, match="synchronous: use load"):
        read_all(read, [b"1"])


@pytest.mark.parametrize("read", [load, aload])
def test_chunks_must_be_bytes_like(read: Any) -> None:
    class File:
        def read(self, _: int) -> Any:
            return 5

    with pytest.raises(TypeError, match=r"what the file gives must be bytes-like, not builtins\.int"):
        read_all(read, File())


def test_a_file_is_read_in_pieces_not_lines() -> None:
    sizes: list[int] = []

    class File(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            sizes.append(size or 0)
            return super().read1(size)

        def __next__(self) -> bytes:
            raise AssertionError("gives lines")

    assert np.array_equal(load(File(LINE), FIELDS)["a"], ARRAY)
    assert len(sizes) < 12
    assert max(sizes) < 1 << 20


@pytest.mark.parametrize("read", [iter_sse, aiter_sse])
@pytest.mark.parametrize("last", [b"rubbish", b"\r\n", b""])
def test_what_is_read_behind_the_end(read: Any, last: bytes) -> None:
    taken: list[bytes] = []
    parts = [b"data: 1\n\n", b"data: [DONE]\n\n", b"\n", b"\r\n", last, b"data: 2\n\n", b"\n"]

    def chunks() -> Any:
        for part in parts:
            taken.append(part)
            yield part

    async def achunks() -> AsyncIterator[bytes]:
        for part in chunks():
            yield part

    def found(**options: Any) -> Any:
        taken.clear()
        if read is iter_sse:
            return list(read(chunks(), FIELDS, **options))

        async def run() -> list[Any]:
            return [document async for document in read(achunks(), FIELDS, **options)]

        return asyncio.run(run())

    assert found() == [1]
    assert taken == parts[: 5 if last == b"rubbish" else 6]
    assert found(drain=False) == [1]
    assert taken == parts[:2]


@pytest.mark.parametrize("read", [iter_sse, aiter_sse])
def test_what_fails_behind_the_end_is_no_fault(read: Any) -> None:
    def chunks() -> Any:
        yield b"data: 1\n\ndata: [DONE]\n\n"
        raise OSError("reset")

    async def achunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    if read is iter_sse:
        assert list(read(chunks(), FIELDS)) == [1]
    else:

        async def run() -> list[Any]:
            return [document async for document in read(achunks(), FIELDS)]

        assert asyncio.run(run()) == [1]


def test_without_asyncio_reading_stops_at_the_end() -> None:
    class Chunks:
        """Asynchronous in name: it never waits, so that a coroutine can be run by hand."""

        def __init__(self) -> None:
            self.parts = iter([b"data: 1\n\n", b"data: [DONE]\n\n", b"\n"])

        def __aiter__(self) -> Chunks:
            return self

        async def __anext__(self) -> bytes:
            return next(self.parts)

    chunks = Chunks()
    reading = aiter_sse(chunks, FIELDS)
    with pytest.raises(StopIteration) as stopped:
        anext(reading).__await__().send(None)
    assert stopped.value.value == 1
    with pytest.raises(StopAsyncIteration):
        anext(reading).__await__().send(None)
    assert next(chunks.parts) == b"\n"
