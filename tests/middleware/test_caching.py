"""What caches are told: Vary, entity tags, conditions and ranges, message by message."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ndwire import dumps
from ndwire_asgi import NDArrayMiddleware, NDArrayResponse, prefers_envelope
from ndwire_asgi._headers import with_vary
from ndwire_asgi._tags import is_current, seen_by_app, tag_of_envelopes
from support.apps import BODY, JSON, REWRITTEN, App, X, answering, ask
from support.asgi import ASKED, Exchange, exchange, http_scope

pytestmark = pytest.mark.anyio
TAG = (b"etag", b'"v1"')
OWN = (b"etag", b'W/"v1-ndarray"')
BY_PREFER = (b"vary", b"Prefer")
HTML = (b"content-type", b"text/html")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Conditional(App):
    """Knows one version of its body, and answers conditions and ranges as RFC 9110 has it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        headers = dict(scope["headers"])
        if b"range" in headers:
            self.messages = answering(BODY[:5], headers=[JSON, TAG], status=206).messages
        elif is_current(scope["headers"], TAG[1]):
            self.messages = answering(b"", headers=[TAG, (b"vary", b"Origin")], status=304).messages
        else:
            self.messages = answering(BODY, headers=[JSON, TAG, (b"vary", b"Origin")]).messages
        await super().__call__(scope, receive, send)


# Vary.


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("headers", [[], [JSON], [(b"vary", b"Origin")]])
async def test_a_304_says_that_it_depends_on_prefer(asked: bool, headers: list[tuple[bytes, bytes]]) -> None:
    app = answering(b"", headers=headers, status=304)
    result = await ask(app, scope=http_scope(*[ASKED] * asked))
    assert result.headers[b"vary"] == (b"Origin, Prefer" if b"vary" in dict(headers) else b"Prefer")
    assert b"preference-applied" not in result.headers


@pytest.mark.parametrize("asked", [False, True])
async def test_responses_of_other_types_do_not_depend_on_prefer(asked: bool) -> None:
    for status in (200, 206, 304):
        app = answering(b"", headers=[HTML, TAG], status=status)
        assert (await ask(app, scope=http_scope(*[ASKED] * asked))).messages == list(app.messages)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("status", "header"),
    [
        (200, (b"content-encoding", b"gzip")),
        (206, (b"content-range", b"bytes 0-20/21")),
        (206, (b"content-type", b"multipart/byteranges; boundary=x")),
    ],
)
async def test_packed_bodies_and_parts_stay_but_vary(asked: bool, status: int, header: tuple[bytes, bytes]) -> None:
    headers = [header] if header[0] == b"content-type" else [JSON, header]
    app = answering(BODY, headers=[*headers, TAG], status=status)
    result = await ask(app, scope=http_scope(*[ASKED] * asked))
    if asked and header[1].startswith(b"multipart"):
        assert result.messages[0]["headers"] == [*headers, TAG, BY_PREFER]
    assert result.messages == [{**app.messages[0], "headers": [*headers, TAG, BY_PREFER]}, app.messages[1]]


@pytest.mark.parametrize("status", [204, 205])
@pytest.mark.parametrize("asked", [False, True])
async def test_responses_without_content_stay(asked: bool, status: int) -> None:
    app = answering(b"", headers=[JSON, TAG], status=status)
    result = await ask(app, scope=http_scope(*[ASKED] * asked))
    assert dict(result.messages[0]["headers"])[b"etag"] == b'"v1"'
    assert result.messages[1:] == list(app.messages[1:])


def by_agent(scope: Mapping[str, Any]) -> bool:
    return dict(scope["headers"]).get(b"user-agent") == b"ndwire"


def by_both(scope: Mapping[str, Any]) -> bool:
    return prefers_envelope(scope) and scope["path"] == "/"


AGENT = (b"user-agent", b"ndwire")


@pytest.mark.parametrize(
    ("when", "vary", "request_headers", "expected", "envelopes"),
    [
        ("preferred", None, [], b"Prefer", False),
        ("preferred", None, [ASKED], b"Prefer", True),
        ("always", None, [], None, True),
        (by_both, None, [], b"Prefer", False),
        (by_both, None, [ASKED], b"Prefer", True),
        (by_agent, ("User-Agent",), [], b"User-Agent", False),
        (by_agent, ["User-Agent", "Prefer"], [AGENT], b"User-Agent, Prefer", True),
        (by_agent, (), [AGENT], None, True),
        (by_agent, (), [], None, False),
    ],
)
async def test_vary_names_what_the_decision_depends_on(
    when: Any, vary: Any, request_headers: Any, expected: bytes | None, envelopes: bool
) -> None:
    scope = http_scope(*request_headers)
    response = NDArrayResponse({"x": np.arange(1, 4, dtype=np.uint8), "y": "z"}, when=when, vary=vary)
    for result in (await ask(answering(BODY), scope=scope, when=when, vary=vary), await exchange(response, scope)):
        assert result.body == (REWRITTEN if envelopes else BODY)
        assert result.headers.get(b"vary") == expected
        assert (b"preference-applied" in result.headers) is (ASKED in request_headers)
        scope = http_scope(*request_headers)


@pytest.mark.parametrize(
    ("when", "vary", "kind", "message"),
    [
        ("preferred", ("Accept",), ValueError, "depends on"),
        ("always", (), ValueError, "depends on"),
        (by_agent, "User-Agent", TypeError, r"\('User-Agent',\)"),
        (by_agent, ("User Agent",), ValueError, "no header's name"),
        (by_agent, ("",), ValueError, "no header's name"),
    ],
)
def test_a_vary_that_makes_no_sense_is_refused(when: Any, vary: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        NDArrayMiddleware(answering(), [X], when=when, vary=vary)
    with pytest.raises(kind, match=message):
        NDArrayResponse({}, when=when, vary=vary)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], b"Prefer"),
        ([b""], b"Prefer"),
        ([b"Origin"], b"Origin, Prefer"),
        ([b"Accept, PREFER"], b"Accept, PREFER"),
        ([b"Origin", b"Accept-Encoding, ,Cookie"], b"Origin, Accept-Encoding, Cookie, Prefer"),
        ([b"Prefer", b"Origin"], b"Prefer, Origin"),
        ([b"*"], b"*"),
        ([b"Origin", b"*"], b"*"),
    ],
)
async def test_vary_is_one_line(before: list[bytes], after: bytes) -> None:
    lines = [(name, value) for name, value in zip((b"vary", b"Vary"), before, strict=False)]
    app = answering(BODY, headers=[*lines, JSON])
    for asked in (False, True):
        result = await ask(app, scope=http_scope(*[ASKED] * asked))
        assert [value for name, value in result.messages[0]["headers"] if name.lower() == b"vary"] == [after]
    assert with_vary((JSON, *lines), [b"Prefer"]) == [JSON, (b"vary", after)]
    result = await ask(app, when="always")
    assert [value for name, value in result.messages[0]["headers"] if name.lower() == b"vary"] == before


# Tags.


@pytest.mark.parametrize(
    ("tag", "own"),
    [
        (b'"v1"', b'W/"v1-ndarray"'),
        (b'W/"v1"', b'W/"v1-ndarray"'),
        (b' "v1" ', b'W/"v1-ndarray"'),
        (b'"a,b"', b'W/"a,b-ndarray"'),
        (b'""', b'W/"-ndarray"'),
        (b'"v1-ndarray"', b'W/"v1-ndarray-ndarray"'),
        (b"v1", None),
        (b'w/"v1"', None),
        (b'"v"1"', None),
        (b"", None),
    ],
)
async def test_envelopes_have_a_tag_of_their_own(tag: bytes, own: bytes | None) -> None:
    assert tag_of_envelopes(tag) == own
    for asked, method in itertools.product((False, True), ("GET", "HEAD")):
        scope = http_scope(*[ASKED] * asked, method=method)
        result = await ask(answering(BODY, headers=[JSON, (b"ETag", tag)]), scope=scope)
        assert result.headers.get(b"ETag") == (own if asked else tag)
        response = NDArrayResponse({"x": np.zeros(3)}, headers={"ETag": tag.decode()})
        result = await exchange(response, http_scope(*[ASKED] * asked, method=method))
        assert result.headers.get(b"etag") == (own if asked else tag)


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ([b'W/"v1-ndarray"'], [b'"v1"']),
        ([b'"v1-ndarray"'], [b'"v1"']),
        ([b'"v1"'], []),
        ([b'W/"v1"'], []),
        ([b'"v0", W/"v1-ndarray", "v2",W/"v3-ndarray"'], [b'"v1", "v3"']),
        ([b'"v0"', b'W/"v1-ndarray"', b'"v2-ndarray"'], [b'"v1"', b'"v2"']),
        ([b'W/"a,b-ndarray"'], [b'"a,b"']),
        ([b'W/"v1-ndarray-ndarray"'], [b'"v1-ndarray"']),
        ([b'W/"-ndarray"'], [b'""']),
        ([b"*"], [b"*"]),
        ([b"v1-ndarray"], []),
        ([b'"v1-ndarray'], []),
        ([b""], []),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_if_none_match_names_envelopes_alone(method: str, sent: list[bytes], seen: list[bytes]) -> None:
    app = Conditional()
    since = (b"If-Modified-Since", b"Mon, 30 Nov 2026 20:00:00 GMT")
    lines = [(b"If-None-Match", value) for value in sent]
    for extra in ([], [since]):
        scope = http_scope(JSON, ASKED, *lines, *extra, method=method)
        before = list(scope["headers"])
        result = await ask(app, scope=scope)
        # Beside If-None-Match, the date does not count, and must not count where nothing is left of it either.
        assert app.scope["headers"] == [JSON, ASKED, *[(b"If-None-Match", value) for value in seen]]
        assert scope["headers"] == before
        not_modified = any(b'"v1"' in value or value == b"*" for value in seen)
        assert result.status == (304 if not_modified else 200)
        assert result.headers[b"etag"] == OWN[1]
        assert result.headers[b"vary"] == b"Origin, Prefer"
    plain = http_scope(*lines, since, method=method)
    await ask(app, scope=plain)
    assert app.scope is plain


async def test_a_date_alone_stays() -> None:
    app = Conditional()
    scope = http_scope(ASKED, (b"if-modified-since", b"Mon, 30 Nov 2026 20:00:00 GMT"))
    await ask(app, scope=scope)
    assert app.scope is scope


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b'W/"v1-ndarray"', b'"v1"'),
        (b'"v1"', b'"v1"'),
        (b'W/"v1"', b'W/"v1"'),
        (b'"v0", W/"v1-ndarray",W/"v2"', b'"v0", "v1",W/"v2"'),
        (b'W/"a,b-ndarray"', b'"a,b"'),
        (b"*", b"*"),
        (b"v1-ndarray", b"v1-ndarray"),
    ],
)
async def test_no_precondition_of_a_change_disappears(sent: bytes, seen: bytes) -> None:
    for name, method in (("if-match", "PUT"), ("if-match", "GET"), ("if-none-match", "POST")):
        date = (b"if-modified-since", b"x")
        scope = http_scope(ASKED, (name.encode(), sent), date, method=method)
        assert seen_by_app(scope, frozenset()) == [ASKED, (name.encode(), seen), date]


async def test_a_failed_precondition_is_a_response_like_others() -> None:
    result = await ask(answering(BODY, headers=[JSON, TAG], status=412))
    assert (result.body, result.headers[b"etag"]) == (REWRITTEN, OWN[1])


@pytest.mark.parametrize("when", ["always", by_agent])
async def test_tags_follow_the_decision_and_not_the_header(when: Any) -> None:
    app = Conditional()
    for asked in (False, True):
        scope = http_scope(*[ASKED] * asked, AGENT, (b"if-none-match", b'"v1", W/"v1-ndarray"'))
        result = await ask(app, scope=scope, when=when)
        assert (result.status, result.headers[b"etag"]) == (304, OWN[1])
    scope = http_scope(ASKED, (b"if-none-match", b'"v1"'))
    result = await ask(app, scope=scope, when=by_agent)
    assert (result.status, result.headers[b"etag"]) == (304, TAG[1])


async def test_what_a_304_says_about_the_bytes_of_lists_goes() -> None:
    headers = [TAG, (b"content-length", b"21"), (b"repr-digest", b"sha-256=:AA==:"), (b"cache-control", b"no-cache")]
    result = await ask(answering(b"", headers=headers, status=304))
    assert result.messages[0]["headers"] == [OWN, (b"cache-control", b"no-cache"), BY_PREFER]
    result = await ask(answering(b"", headers=headers, status=304), scope=http_scope())
    assert result.messages[0]["headers"] == [*headers, BY_PREFER]


@pytest.mark.parametrize("part", [b'"', b'W/"', b'"a-ndarray",', b"-ndarray", b", ", b"\\"])
def test_time_to_read_tags_is_linear(part: bytes) -> None:
    def seconds(n: int) -> float:
        scope = http_scope((b"if-none-match", part * n), (b"if-match", part * n))
        before = time.process_time()
        seen_by_app(scope, frozenset())
        is_current(scope["headers"], b'"a"')
        return time.process_time() - before

    for _ in range(5):
        if seconds(80_000) <= 8 * seconds(20_000) + 0.02:
            return
    pytest.fail("four times the text took more than eight times as long")


# Ranges.


async def test_ranges_are_hidden_where_envelopes_are_wanted() -> None:
    ranges = [(b"Range", b"bytes=0-4"), (b"if-range", b'"v1"')]
    app = Conditional()
    for when, headers, hidden in (
        ("preferred", [ASKED], True),
        ("preferred", [], False),
        ("always", [], True),
        (by_agent, [AGENT], True),
        (by_agent, [ASKED], False),
    ):
        result = await ask(app, scope=http_scope(*headers, *ranges[::1], JSON), when=when)
        assert app.scope["headers"] == [*headers, *([] if hidden else ranges), JSON]
        assert result.status == 200
    scope = http_scope((b"range", b"bytes=0-4"))
    result = await ask(app, scope=scope)
    assert (result.status, result.body) == (206, BODY[:5])


# With NDArrayResponse.

CONTENT = {"x": np.arange(1, 4, dtype=np.uint8)}


async def respond(*headers: tuple[bytes, bytes], method: str = "GET", behind: bool = False, **options: Any) -> Exchange:
    app = NDArrayResponse(CONTENT, headers={"ETag": '"v1"'}, **options)
    scope = http_scope(*headers, method=method)
    return await (ask(app, scope=scope) if behind else exchange(app, scope))


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("value", "asked", "current"),
    [
        (b'W/"v1-ndarray"', True, True),
        (b'"v0", W/"v1-ndarray"', True, True),
        (b"*", True, True),
        (b'"v1"', True, False),
        (b'W/"v0-ndarray"', True, False),
        (b'"v1"', False, True),
        (b'W/"v1"', False, True),
        (b"*", False, True),
        (b'W/"v1-ndarray"', False, False),
    ],
)
async def test_a_response_knows_its_own_tags(
    value: bytes, asked: bool, current: bool, method: str, behind: bool
) -> None:
    result = await respond(*[ASKED] * asked, (b"if-none-match", value), method=method, behind=behind)
    assert result.status == (304 if current else 200)
    assert result.headers[b"etag"] == (OWN if asked else TAG)[1]
    assert result.headers[b"vary"] == b"Prefer"
    if current:
        assert result.body == b""
        assert b"content-length" not in result.headers
    elif method == "GET":
        assert result.body == (dumps(CONTENT) if asked else b'{"x":[1,2,3]}')


async def test_a_response_looks_at_conditions_of_reads_that_succeed_only() -> None:
    condition = (b"if-none-match", b'W/"v1-ndarray"')
    assert (await respond(ASKED, condition, method="POST")).status == 200
    assert (await respond(ASKED, condition, status_code=201)).status == 201
    assert (await exchange(NDArrayResponse(CONTENT), http_scope(ASKED, (b"if-none-match", b"*")))).status == 200
    result = await exchange(NDArrayResponse(status_code=304, headers={"ETag": '"v1"'}), http_scope(ASKED))
    assert result.headers[b"etag"] == OWN[1]


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("status", [101, 103, 204, 205, 304])
async def test_a_response_of_a_status_without_a_body_has_neither_body_nor_length(
    status: int, asked: bool, behind: bool
) -> None:
    response = NDArrayResponse(CONTENT, status, {"Content-Length": "7"})
    scope = http_scope(*[ASKED] * asked)
    result = await (ask(response, scope=scope) if behind else exchange(response, scope))
    assert (result.status, result.body) == (status, b"")
    assert b"content-length" not in result.headers
