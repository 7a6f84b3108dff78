"""The documents: what they link to and name exists."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")))
PACKAGES = (ROOT / "parser" / "ndwire", ROOT / "middleware" / "ndwire_asgi")
# The code blocks of a document, in which nothing is a link or a name.
BLOCK = re.compile(r"```.*?```", re.DOTALL)
FOLDERS = ("parser", "middleware", "tests", "examples", "docs")


def prose(path: pathlib.Path) -> str:
    return BLOCK.sub("", path.read_text(encoding="utf-8"))


def anchors(path: pathlib.Path) -> set[str]:
    """Return the anchors of a document's headings, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(document: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        assert file.is_relative_to(ROOT), target
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_that_are_named_exist(document: pathlib.Path) -> None:
    for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`", prose(document)):
        assert (ROOT / path).exists(), path


def test_modules_of_the_architecture_exist() -> None:
    text = prose(ROOT / "docs" / "architecture.md")
    room = ""
    modules: list[str] = []
    for line in text.splitlines():
        cells = re.match(r"\| (?:`(\w+/)`)? ?\|(.*)", line)
        if cells is not None:
            # A row of the map: without a room, it is in that of the row above.
            room = cells[1] or room
            modules += [room + name for name in re.findall(r"`([\w/]+\.py)`", cells[2])]
        else:
            modules += re.findall(r"`([\w/]+\.py)`", line)
    assert len(modules) > 40
    places = (*PACKAGES, ROOT, ROOT / "tests" / "parser" / "laws", ROOT / "tests" / "middleware")
    for module in modules:
        assert any((place / module).is_file() for place in places), module


def test_the_architecture_names_every_module() -> None:
    text = prose(ROOT / "docs" / "architecture.md")
    for package in PACKAGES:
        for module in package.rglob("*.py"):
            if module.name != "__init__.py" and "rl" not in module.parts:
                assert f"{module.name}`" in text, module


def test_commands_of_the_contributors_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make ([\w-]+)", contributing, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
