"""The checks of ``make caches`` hold without a proxy as well, and the documentation's blocks are what it runs."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from caches.checks import CHECKS, Site, streaming
from caches.origin import KINDS, app
from caches.proxies import DOCUMENT, PACKAGES, command_of
from support.asgi import serving


@pytest.fixture(scope="module")
def origin() -> Iterator[tuple[str, httpx.Client]]:
    with serving(app) as url, httpx.Client() as client:
        yield url, client


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in CHECKS if name != "revalidation"])
def test_without_a_proxy(name: str, kind: str, origin: tuple[str, httpx.Client]) -> None:
    url, client = origin
    CHECKS[name](Site(client, url, kind, caching=False))


def test_events_without_a_proxy(origin: tuple[str, httpx.Client]) -> None:
    url, client = origin
    streaming(Site(client, url, "events", caching=False))


@pytest.mark.parametrize("name", PACKAGES)
def test_the_documentation_has_a_configuration(name: str, tmp_path: pathlib.Path) -> None:
    command_of(name, tmp_path, 1234, 5678)
    text = (tmp_path / "proxy.conf").read_text()
    assert "1234" in text
    assert "8000" not in text


def test_a_page_of_another_origin_may_ask() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "caching.md", "exec"), names)
    client = TestClient(names["app"])
    preflight = {
        "Origin": "https://page.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "prefer",
    }
    assert client.options("/", headers=preflight).status_code == 200
    response = client.get("/", headers={"Origin": "https://page.example", "Prefer": "ndarray=envelope"})
    assert response.headers["access-control-expose-headers"] == "Preference-Applied"
