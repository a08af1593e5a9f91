"""Pages, docstrings and comments that send a reader to a file name one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, ROOT

STORAGE = ROOT / "sloppyjobs" / "storage"
TOP = ("sloppyjobs", "webui", "templates", "static", "tests", "docs", "benchmarks", "examples")
PAGES = [
    STORAGE / "README.md",
    ROOT / "CHANGELOG.md",
    DOCS / "contributing.md",
    *sorted((DOCS / "adr").glob("*.md")),
    *sorted((DOCS / "explanation").glob("*.md")),
]
"""Those that speak of the code; others name files of their reader's too."""
MADE = {"site/"}
"""What a command makes."""

_BLOCK = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"(?:[\w*.-]+/)*(?:[\w*-]+\.(?:py|pyi|md|html|css|js|toml|yml|svg))|(?:[\w-]+/)+")
_IN_SOURCES = re.compile(rf"(?<![\w/.-])(?:{'|'.join(TOP)})/[\w/-]+\.(?:py|md|html|css|js|svg)\b")
CODE = ("sloppyjobs", "webui", "tests", "docs", "benchmarks")
SOURCES = [path for top in CODE for path in (ROOT / top).rglob("*.py")]
NAMES = {path.name for top in TOP for path in (ROOT / top).rglob("*.*")} | {path.name for path in ROOT.glob("*.*")}


def _exists(name: str, page: Path) -> bool:
    if "/" not in name:
        return name in NAMES
    places = (ROOT, ROOT / "sloppyjobs", STORAGE, page.parent)
    return any(next(place.glob(name.rstrip("/")), None) for place in places)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    spans = (span.split("#")[0] for span in _SPAN.findall(_BLOCK.sub("", page.read_text())))
    assert [span for span in spans if _FILE.fullmatch(span) and span not in MADE and not _exists(span, page)] == []


def test_files_that_the_code_names_exist() -> None:
    told = {(source, name) for source in SOURCES for name in _IN_SOURCES.findall(source.read_text())}
    assert len(told) >= 10
    places = (ROOT, ROOT / "templates")
    assert [(str(source), name) for source, name in told if not any((place / name).exists() for place in places)] == []
