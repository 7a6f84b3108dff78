"""The house: imports point one way, from folder to folder and from module to module, and no room is overfull."""

from __future__ import annotations

import ast
import pathlib
import pickle
import types

import pytest

import ndwire

ROOT = pathlib.Path(ndwire.__file__).parent
# Each folder may import from those before it.
FOLDERS = ("_contract", "_buffers", "_wires", "_scanning", "_reading", "_writing", "_http", "presets", "rl")
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py")


def imported(path: pathlib.Path) -> set[str]:
    """Return the names of the package's modules that a module imports, without the package's own."""
    tree = ast.parse(path.read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names if node.module is not None}
    found: set[str] = set()
    for name in names | {str(node.module) for node in froms}:
        target = ROOT.parent / (name.replace(".", "/") + ".py")
        if name.startswith("ndwire.") and target.is_file():
            found.add(name.removeprefix("ndwire."))
    return found


def name_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_folders_import_from_folders_before_them(path: pathlib.Path) -> None:
    own = FOLDERS.index(name_of(path).partition(".")[0])
    for name in imported(path):
        assert FOLDERS.index(name.partition(".")[0]) <= own, name


def test_no_import_runs_in_a_circle() -> None:
    graph = {name_of(path): imported(path) for path in MODULES}
    while graph:
        leaves = {name for name, names in graph.items() if not names & graph.keys()}
        assert leaves, f"a circle among {sorted(graph)}"
        graph = {name: names for name, names in graph.items() if name not in leaves}


def test_every_room_can_be_taken_in_at_a_glance() -> None:
    for folder in (ROOT, *(path for path in ROOT.rglob("*") if path.is_dir() and path.name != "__pycache__")):
        entries = [path for path in folder.iterdir() if path.suffix in ("", ".py") and path.name[:2] != "__"]
        assert len(entries) <= 11, folder


def test_public_names_say_where_they_are_found() -> None:
    for name in ndwire.__all__:
        value = getattr(ndwire, name)
        if isinstance(value, (type, types.FunctionType)):
            assert value.__module__ == "ndwire", name
    assert pickle.loads(pickle.dumps(ndwire.Field("x"))) == ndwire.Field("x")
    assert b"_contract" not in pickle.dumps(ndwire.MalformedJSON("x", offset=1))
