"""``make caches``: whether caches and proxies keep lists and envelopes apart, on loopback. It fails if one does not."""

from __future__ import annotations

import contextlib
import sys

import httpx
import rich.console
import rich.table

from caches.checks import CHECKS, Site, Wrong, one_copy, streaming
from caches.origin import KINDS, app
from caches.proxies import PACKAGES, install, missing, running
from support.asgi import serving

CACHING = ("nginx", "varnish")


def main() -> int:
    """Run all of it; return how many cells are wrong."""
    install(missing())
    faults: list[str] = []
    with contextlib.ExitStack() as stack:
        direct = stack.enter_context(serving(app))
        origin = int(direct.rpartition(":")[2])
        urls = {"none": direct} | {name: stack.enter_context(running(name, origin)) for name in PACKAGES}
        client = stack.enter_context(httpx.Client(timeout=20))
        table = rich.table.Table("app", "check", *urls)
        rows = [(kind, name, check) for name, check in CHECKS.items() for kind in KINDS]
        rows += [("middleware", "one copy of ten spellings", one_copy), ("events", "as they come", streaming)]
        for kind, name, check in rows:
            cells: list[str] = []
            for proxy, url in urls.items():
                if check is one_copy and proxy != "varnish":
                    cells.append("")
                    continue
                try:
                    check(Site(client, url, kind, caching=proxy in CACHING))
                    cells.append("ok")
                except (Wrong, httpx.HTTPError) as exc:
                    cells.append("[bold red]WRONG")
                    faults.append(f"{proxy}, {kind}, {name}: {exc!r}")
            table.add_row(kind, name, *cells)
        rich.console.Console().print(table)
    for fault in faults:
        print(fault)
    return len(faults)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
