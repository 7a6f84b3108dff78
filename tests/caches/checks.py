"""What has to hold behind every cache: clients get the form that they ask for, whole, from a copy where they can."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import httpx

from caches.origin import EVENT_SECONDS, FIELDS, LIST
from ndwire import rewrite

ENVELOPES = rewrite(LIST, FIELDS)
OWN_TAG = {"list": '"v1"', "envelope": 'W/"v1-ndarray"'}
BODIES = {"list": LIST, "envelope": ENVELOPES}

Headers = list[tuple[str, str]]

ASK: Headers = [("Prefer", "ndarray=envelope")]
SPELLINGS: list[Headers] = [
    ASK,
    [("PREFER", "NDArray=envelope")],
    [("Prefer", "ndarray = envelope")],
    [("Prefer", 'ndarray="envelope"')],
    [("Prefer", "ndarray=envelope; wait=3")],
    [("Prefer", "respond-async, ndarray=envelope")],
    [("Prefer", "wait=100,ndarray=envelope, foo")],
    [("Prefer", 'foo="a,b", ndarray=envelope')],
    [("Prefer", "respond-async"), ("Prefer", "ndarray=envelope")],
    [("Prefer", ",ndarray=envelope,")],
]
NO_ASKING: list[Headers] = [
    [],
    [("Prefer", "ndarray=nested")],
    [("Prefer", "ndarray=nested, ndarray=envelope")],
    [("Prefer", 'foo="x, ndarray=envelope"')],
    [("Prefer", 'ndarray="envelope')],
    [("Prefer", "x-ndarray=envelope")],
]


class Wrong(Exception):
    """A client got what it must not get."""


def expect(what: object, message: str) -> None:
    """Raise ``Wrong`` unless something holds."""
    if not what:
        raise Wrong(message)


class Site:
    """One kind of app behind one proxy.

    Args:
        url: The proxy's, or the origin's.
        kind: The app's.
        caching: Whether the proxy keeps copies.
    """

    _keys = itertools.count()

    def __init__(self, client: httpx.Client, url: str, kind: str, *, caching: bool) -> None:
        self.client = client
        self.url = url
        self.kind = kind
        self.caching = caching
        self.key = f"{next(self._keys)}"

    def get(self, headers: Headers, *, seconds: int = 60) -> httpx.Response:
        own = [("Accept-Encoding", "identity")] if not any(name == "Accept-Encoding" for name, _ in headers) else []
        return self.client.get(f"{self.url}/{self.kind}/{self.key}/{seconds}", headers=[*own, *headers])

    def whole(self, headers: Headers, form: str, **more: Any) -> httpx.Response:
        """Get the whole body, in the form that is due."""
        response = self.get(headers, **more)
        expect(response.status_code == 200, f"status {response.status_code}")
        expect(response.content == BODIES[form], f"{headers} did not get the {form}")
        applied = response.headers.get("preference-applied")
        expect(applied == ("ndarray=envelope" if form == "envelope" else None), f"Preference-Applied: {applied}")
        vary = [name.strip().lower() for line in response.headers.get_list("vary") for name in line.split(",")]
        expect("prefer" in vary and len(response.headers.get_list("vary")) == 1, f"Vary: {vary}")
        return response

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.client.get(f"{self.url}/counts/{self.key}").json()
        return counts


def forms(site: Site) -> None:
    """Both forms, in turn; two copies at most."""
    for _ in range(3):
        site.whole([], "list")
        site.whole(ASK, "envelope")
    expect(not site.caching or site.counts()["asked"] == 2, f"asked {site.counts()['asked']} times, not twice")


def spellings(site: Site) -> None:
    """All spellings of the question, and what only looks like it."""
    for headers in [*SPELLINGS, *NO_ASKING, *SPELLINGS]:
        site.whole(headers, "envelope" if headers in SPELLINGS else "list")


def revalidation(site: Site) -> None:
    """Copies that are no longer fresh, with another Vary among them."""
    for origin in ([], [("Origin", "https://page.example")], []):
        for headers, form in (([], "list"), (ASK, "envelope"), ([], "list")):
            site.whole([*headers, *origin], form, seconds=1)
        time.sleep(2.1)
    if site.caching and site.kind in ("middleware", "function"):
        expect(site.counts()["unmodified"] > 0, "the cache never asked whether its copy is still good")


def conditions(site: Site) -> None:
    """A client's own copy is good for the form that it is of, and for no other."""
    for _ in range(2):
        for headers, form in (([], "list"), (ASK, "envelope")):
            tag = site.whole(headers, form).headers["etag"]
            if site.kind == "compressing":
                # It knows no conditions.
                continue
            # Whoever compresses on the way makes the tag weak.
            same = tag.removeprefix("W/") == OWN_TAG[form].removeprefix("W/")
            expect(same, f"the {form} has the tag {tag}")
            response = site.get([*headers, ("If-None-Match", OWN_TAG[form])])
            expect(response.status_code == 304, f"status {response.status_code} for the {form}'s own tag")
            expect(not response.content, "a 304 with a body")
            other = OWN_TAG["list" if form == "envelope" else "envelope"]
            site.whole([*headers, ("If-None-Match", other)], form)


def ranges(site: Site) -> None:
    """Parts are of the form that was asked for, and go together with no other."""
    for condition in ([], [("If-Range", '"v1"')], [("If-Range", 'W/"v1-ndarray"')]):
        for headers, form in ((ASK, "envelope"), ([], "list"), (ASK, "envelope")):
            response = site.get([*headers, ("Range", "bytes=100-"), *condition])
            expect(response.status_code in (200, 206), f"status {response.status_code}")
            first = 100 if response.status_code == 206 else 0
            expect(response.content == BODIES[form][first:], f"{condition} gave a part of another form")
            if condition and condition[0][1] != OWN_TAG[form]:
                expect(first == 0, f"{condition} gave a part of the {form}")


def packing(site: Site) -> None:
    """With and without gzip, in turn."""
    for encoding in ("gzip", "identity", "gzip, br", "gzip"):
        for headers, form in (([], "list"), (ASK, "envelope")):
            site.whole([*headers, ("Accept-Encoding", encoding)], form)


def one_copy(site: Site) -> None:
    """What means the same is kept once, where the proxy is told how."""
    for headers in SPELLINGS:
        if not any('foo="' in value for _, value in headers):
            site.whole(headers, "envelope")
    expect(site.counts()["asked"] == 1, f"asked {site.counts()['asked']} times, not once")


def streaming(site: Site) -> None:
    """Events go on as they come."""
    for headers in ([], ASK):
        start = time.monotonic()
        times: list[float] = []
        text = b""
        with site.client.stream("GET", f"{site.url}/events", headers=headers) as response:
            for chunk in response.iter_raw():
                times.append(time.monotonic() - start)
                text += chunk
        expect(text.count(b"\n\n") == 3, "events are missing")
        expect((b'"shape"' in text) is bool(headers), "events of another form")
        expect(len(times) >= 3 and times[0] < EVENT_SECONDS < times[1], f"events came after {times} s")


Check = Callable[[Site], None]
CHECKS: dict[str, Check] = {
    "forms": forms,
    "spellings": spellings,
    "revalidation": revalidation,
    "conditions": conditions,
    "ranges": ranges,
    "gzip": packing,
}
