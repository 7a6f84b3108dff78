from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndwire_asgi._preferences import first_preference


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"", None),
        (b"respond-async", None),
        (b"ndarray", b""),
        (b"ndarray=", b""),
        (b'ndarray=""', b""),
        (b"ndarray;envelope", b""),
        (b"ndarray=envelope", b"envelope"),
        (b"\tNDArray \t=\t envelope \t", b"envelope"),
        (b'ndarray = "envelope" ; wait=3', b"envelope"),
        (b'ndarray="en\\velope"', b"envelope"),
        (b'ndarray="a\\"b\\\\;,c"', b'a"b\\;,c'),
        (b"respond-async, ndarray=envelope; wait=3", b"envelope"),
        (b"ndarray=nested, ndarray=envelope", b"nested"),
        (b'foo="a, ndarray=nested\\"", ndarray=envelope', b"envelope"),
        (b'foo; a="x,ndarray=nested;" ;b, ndarray=envelope', b"envelope"),
        (b",, ,ndarray=envelope,", b"envelope"),
        (b"foo; ndarray=envelope", None),
        (b"foo=bar; ndarray=envelope, x", None),
        (b'"ndarray"=envelope', None),
        (b"x-ndarray=envelope", None),
        # What is no preference by the grammar is no known one either.
        (b'ndarray="envelope', b'"envelope'),
        (b'ndarray="envelope\\"', b'"envelope\\"'),
        (b'ndarray=envelope "x"', b'envelope "x"'),
        (b'ndarray="envelope"x', b'"envelope"x'),
        (b"ndarray=envelope\xff", b"envelope\xff"),
        (b'"ndarray=x, ndarray=envelope', None),
        # RFC 2231, which knows continued parameters, has no say in preferences.
        (b"ndarray=envelope;a*=x;a*0=y", b"envelope"),
        (b"ndarray=envelope;a*" + b"9" * 5000, b"envelope"),
        (b"ndarray*=envelope", None),
    ],
)
def test_first_preference(header: bytes, value: bytes | None) -> None:
    assert first_preference(header, b"ndarray") == value


tokens = st.text("abcdefgnrAZ09!#$%&'*+-.^_`|~", min_size=1).map(str.encode)
texts = st.binary(max_size=8)
spaces = st.sampled_from([b"", b"", b" ", b"\t "])


def quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


@st.composite
def preferences(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    """Return a name, its value, and a preference that says so."""
    name = draw(st.sampled_from([b"ndarray", b"NDARRAY", b"wait"]) | tokens)
    value, text = draw(
        st.just((b"", b""))
        | tokens.map(lambda token: (token, b"=" + token))
        | texts.map(lambda text: (text, b"=" + quoted(text)))
    )
    out = draw(spaces) + name + draw(spaces) + text.replace(b"=", b"=" + draw(spaces), 1) + draw(spaces)
    for _ in range(draw(st.integers(0, 2))):
        out += b";" + draw(spaces) + draw(tokens | st.just(b"")) + draw(st.just(b"") | texts.map(quoted)) + draw(spaces)
    return name.lower(), value, out


@given(st.lists(preferences(), max_size=4))
def test_what_the_grammar_allows_is_read(items: list[tuple[bytes, bytes, bytes]]) -> None:
    expected = next((value for name, value, _ in items if name == b"ndarray"), None)
    assert first_preference(b",".join(text for _, _, text in items), b"ndarray") == expected


@given(st.lists(st.sampled_from([b"ndarray", b"=", b'"', b"\\", b",", b";", b" ", b"a", b"*", b"0", b"\n", b"\xff"])))
def test_nothing_raises(parts: list[bytes]) -> None:
    header = b"".join(parts)
    value = first_preference(header, b"ndarray")
    assert value is None or len(value) <= len(header)


def seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    for _ in range(5):
        work()
    return time.process_time() - before


@pytest.mark.parametrize(
    "part", [b";", b'"', b'\\"', b"\\", b",", b"=", b" ", b'a="', b'";', b"ndarray;", b"a*=x;a*0=y;"]
)
@pytest.mark.parametrize("head", [b'ndarray="', b"ndarray=", b'"ndarray', b"ndarra,x", b"a="])
def test_time_is_linear(head: bytes, part: bytes) -> None:
    n = 60_000 // len(part)

    def read(n: int) -> object:
        return first_preference(head + part * n + b"ndarray", b"ndarray")

    for _ in range(5):
        if seconds(lambda: read(4 * n)) <= 8 * seconds(lambda: read(n)) + 0.02:
            return
    pytest.fail("four times the text took more than eight times as long")
