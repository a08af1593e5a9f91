"""Type checkers know what user code may write: they find the mistakes that are marked, and nothing else.

A line of ``user_code`` that must be refused ends with ``# expect:``, the codes of mypy, a bar, and those of pyright.
A line of the page on typing ends with ``# refused:`` and why.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import public_stub
import pytest

import sloppyjobs

ROOT = Path(__file__).parents[2]
USER_CODE = sorted((Path(__file__).parent / "user_code").glob("*.py"))
PAGE = ROOT / "docs" / "howto" / "typing.md"
_EXPECTED = re.compile(r"# expect: (?P<mypy>[^|]+)\|(?P<pyright>.+)$")
_FOUND = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]$")
_BLOCK = re.compile(r'^```python title="(\w+\.py)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)

Findings = dict[tuple[str, int], set[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user code, and the files of the page on typing."""
    made = tmp_path_factory.mktemp("user")
    for source in USER_CODE:
        shutil.copy(source, made)
    for name, text in _BLOCK.findall(PAGE.read_text()):
        (made / name).write_text(text)
    return made


def _lines(folder: Path) -> Iterator[tuple[tuple[str, int], str]]:
    for source in folder.glob("*.py"):
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            yield (source.name, number), line


def _compare(checker: str, folder: Path, found: Findings) -> None:
    """Every mistake is found: by its codes in the user code, by any code on the page."""
    refused = {place for place, line in _lines(folder) if "# refused: " in line}
    expected = {
        place: set(codes[checker].split()) for place, line in _lines(folder) if (codes := _EXPECTED.search(line))
    }
    assert len(refused) >= 5
    assert len(expected) >= 20
    assert {place: codes for place, codes in found.items() if place not in refused} == expected
    assert refused <= found.keys()


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_mypy_finds_the_mistakes_and_nothing_else(folder: Path) -> None:
    # The settings and the cache of ``make types``, which has looked at all that is imported here, or will have to.
    shared = (f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}")
    found: Findings = defaultdict(set)
    for line in _run(folder, "mypy", "--strict", "--no-pretty", *shared, ".").splitlines():
        if (error := _FOUND.match(line)) is not None:
            found[error["file"], int(error["line"])].add(error["code"])
    _compare("mypy", folder, found)


@pytest.mark.timeout(600)
def test_pyright_finds_the_mistakes_and_nothing_else(folder: Path) -> None:
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}))
    options = ("--outputjson", "--level", "error", "--project", str(project), "--pythonpath", sys.executable)
    found: Findings = defaultdict(set)
    for error in json.loads(_run(folder, "basedpyright", *options))["generalDiagnostics"]:
        found[Path(error["file"]).name, error["range"]["start"]["line"] + 1].add(error["rule"])
    _compare("pyright", folder, found)


def test_checkers_read_the_same_names_as_programs() -> None:
    assert public_stub.PATH.read_text() == public_stub.stub(), "run python tests/typing/public_stub.py"
    names = set(re.findall(r" as (\w+)$", public_stub.stub(), re.MULTILINE))
    assert names == set(sloppyjobs.__all__)
