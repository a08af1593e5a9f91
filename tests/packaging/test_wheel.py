"""A release as its users get it: the archives' contents, and the tutorial in an environment with nothing else."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

import importing
import pytest
from missing import without
from pages import DOCS, ROOT, read
from running import Run, clean_environment
from steps import STEPS

NAME = "sloppyjobs"


def _wheel(archives: Path) -> Path:
    return next(archives.glob("*.whl"))


def _names(archives: Path) -> tuple[set[str], set[str]]:
    """What the wheel holds, and what the source archive holds below its only folder."""
    with zipfile.ZipFile(_wheel(archives)) as wheel, tarfile.open(next(archives.glob("*.tar.gz"))) as source:
        return set(wheel.namelist()), {name.partition("/")[2] for name in source.getnames()}


def _below(folder: str, pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern) if path.is_file()}


def test_the_wheel_has_all_of_the_packages_and_nothing_else(archives: Path) -> None:
    wheel, _ = _names(archives)
    modules = _below("sloppyjobs", "*.py") | _below("webui", "*.py")
    pages = {f"webui/{name}" for name in _below("templates", "*.html") | _below("static", "*.*")}
    typed = {"sloppyjobs/py.typed", "webui/py.typed"}
    assert modules | pages | typed <= wheel
    assert {name.split("/")[0] for name in wheel} == {"sloppyjobs", "webui", f"{NAME}-{_version()}.dist-info"}
    assert f"{NAME}-{_version()}.dist-info/licenses/LICENSE" in wheel
    assert any(name.startswith("sloppyjobs/storage/schema/migrations/versions/") for name in wheel)
    assert not [name for name in wheel if name.startswith("tests/") or "__pycache__" in name]


def test_the_source_archive_can_be_built_tested_and_documented(archives: Path) -> None:
    _, source = _names(archives)
    wanted = {"pyproject.toml", "hatch_build.py", "package-lock.json", "LICENSE", "README.md", "Makefile", "mkdocs.yml"}
    assert wanted | _below("tests", "*.py") | _below("docs", "*.md") | _below("examples", "*.py") <= source


def test_the_scripts_of_the_pages_are_in_both_archives(archives: Path) -> None:
    if not (ROOT / "static" / "vendor" / "versions.json").exists():
        without("npm could not be had: the archives are built without the scripts from there, and a release needs them")
    wheel, source = _names(archives)
    for name in ("htmx.min.js", "htmx.LICENSE.txt"):
        assert f"webui/static/vendor/{name}" in wheel
        assert f"static/vendor/{name}" in source


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_works_in_an_empty_environment(archives: Path, tmp_path: Path) -> None:
    """Which installs the wheel, has a job die, opens the pages and retries it there."""
    constraints = tmp_path / "constraints.txt"
    pins = (ROOT / "constraints.txt").read_text()
    constraints.write_text(f"{pins}\n{NAME} @ {_wheel(archives).as_uri()}\n")
    home = tmp_path / "home"
    home.mkdir()
    # No compiler is needed where nothing but wheels is accepted.
    pip = {"PIP_CONSTRAINT": str(constraints), "PIP_ONLY_BINARY": ":all:", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with Run(read(DOCS / "tutorial.md"), home, clean_environment(**pip), STEPS) as run:
        run.all()
    _check_the_import(home / ".venv" / "bin" / "python", tmp_path)


def _check_the_import(python: Path, folder: Path) -> None:
    seen = importing.everything_public(python, folder)
    assert (seen["opened"], seen["threads"], seen["logging"]) == ([], 1, [])
    assert importing.seconds(python, folder) < 0.15


def _version() -> str:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]
