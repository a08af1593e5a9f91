"""The reference is complete, and what is generated is up to date."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from pages import DOCS, ROOT, generated_pages

import sloppyjobs
from sloppyjobs import Jobs, Retention, Worker
from sloppyjobs.cli.worker import worker as worker_command
from sloppyjobs.enqueue.definitions import Settings
from sloppyjobs.storage.dialects.postgres.store import open_store as open_postgres
from sloppyjobs.storage.dialects.sqlite.store import open_store as open_sqlite

GENERATED = generated_pages()
API = "\n".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    command = shlex.split(GENERATED[page])
    assert command[0] == "python"
    made = subprocess.run([sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    changes = difflib.unified_diff(page.read_text().splitlines(), made.stdout.splitlines(), lineterm="", n=0)
    assert not (difference := "\n".join(changes)), f"run {GENERATED[page]} > {page.relative_to(ROOT)}\n{difference}"


def test_five_pages_are_generated() -> None:
    assert {page.name for page in GENERATED} == {"cli.md", "dialect.md", "errors.md", "events.md", "tables.md"}


def _configured() -> set[str]:
    """What the page on configuration has in the first two columns of its tables."""
    rows = re.findall(r"^\| (.*?) \|(.*?)\|", (DOCS / "reference" / "configuration.md").read_text(), re.MULTILINE)
    return set(re.findall(r"`([^` ]+)[^`]*`", " ".join(" ".join(row) for row in rows)))


def test_every_environment_variable_and_configuration_key_is_described() -> None:
    sources = [*(ROOT / "sloppyjobs").rglob("*.py"), *(ROOT / "webui").rglob("*.py")]
    used = {name for source in sources for name in re.findall(r"(?<!_)SLOPPYJOBS_[A-Z_]+[A-Z]\b", source.read_text())}
    assert len(used) >= 10
    assert used <= _configured()


@pytest.mark.parametrize("what", [Jobs, Worker, Retention, open_sqlite, open_postgres])
def test_every_option_is_described(what: Any) -> None:
    given = dataclasses.fields(what) if dataclasses.is_dataclass(what) else ()
    names = {field.name for field in given} or set(inspect.signature(what).parameters) - {"jobs"}
    assert names <= _configured()


def test_every_option_of_a_definition_and_of_the_worker_command_is_described() -> None:
    options = {option.opts[0] for option in worker_command.params if isinstance(option, click.Option)}
    assert set(Settings.__annotations__) | options <= _configured()


def test_every_public_name_is_in_the_reference() -> None:
    views = {
        f"sloppyjobs.views.{name}" for name in ("page", "job", "workflow", "batches", "cause", "operations", "overview")
    }
    whole = {"sloppyjobs.errors", "sloppyjobs.storage", *views}
    shown = set(re.findall(r"^::: (\S+)$", API, re.MULTILINE))
    assert whole <= shown
    public = {name: getattr(sloppyjobs, name) for name in sloppyjobs.__all__ if name not in ("storage", "NO_RETRY")}
    places = {name: f"{value.__module__}.{value.__name__}" for name, value in public.items()}
    assert not {name for name, place in places.items() if place not in shown and place.rpartition(".")[0] not in whole}
