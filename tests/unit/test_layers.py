"""Imports point downwards, importing costs nothing, and making a ``Jobs`` starts nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event

from sloppyjobs import Jobs
from sloppyjobs.testing import conformance

ROOT = Path(__file__).parents[2]


def printed(code: str) -> str:
    """What a fresh interpreter prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return ran.stdout.strip()


def test_the_layers_hold() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stdout


def test_code_above_storage_is_typed_on_ports_and_never_on_a_storage() -> None:
    above = [
        file
        for package in ("sloppyjobs", "webui")
        for file in (ROOT / package).rglob("*.py")
        if not file.is_relative_to(ROOT / "sloppyjobs/storage")
    ]
    naming = [str(file.relative_to(ROOT)) for file in above if "SqlStore" in file.read_text()]
    assert naming == ["sloppyjobs/testing/conformance/sql_storage.py"]


def test_importing_the_package_imports_next_to_nothing() -> None:
    heavy = "{'sqlalchemy', 'flask', 'alembic', 'msgspec', 'croniter', 'threading', 'asyncio', 'pebble'}"
    assert (
        printed(
            f"import sys; before = set(sys.modules); import sloppyjobs; print({heavy} & (sys.modules.keys() - before))"
        )
        == "set()"
    )


@pytest.mark.parametrize("name", ["Jobs", "Worker", "storage", "testing"])
def test_no_part_of_the_library_imports_flask(name: str) -> None:
    where = "from sloppyjobs import testing; testing.drain" if name == "testing" else f"from sloppyjobs import {name}"
    assert printed(f"import sys; {where}; print({{'flask', 'webui', 'click'}} & sys.modules.keys())") == "set()"


def test_a_producer_imports_neither_worker_nor_migrations() -> None:
    code = "import sys; from sloppyjobs import Jobs; Jobs('sqlite://').declare('a'); "
    unwanted = "{'alembic', 'sloppyjobs.worker', 'sloppyjobs.admin', 'croniter', 'pebble', 'psycopg'}"
    assert printed(f"{code}print({unwanted} & sys.modules.keys())") == "set()"


def test_every_public_name_can_be_imported() -> None:
    code = "import sloppyjobs; print([n for n in sloppyjobs.__all__ if getattr(sloppyjobs, n, None) is None])"
    assert printed(code) == "[]"


def test_making_jobs_opens_no_connection_and_starts_no_thread(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'jobs.db'}")
    opened: list[object] = []
    event.listen(engine, "connect", lambda connection, record: opened.append(connection))
    before = threading.active_count()
    jobs = Jobs(engine)
    jobs.define("say", lambda ctx, payload: None)
    jobs.declare_recurring("nightly", "say", cron="0 2 * * *")
    jobs.create_worker()
    assert (opened, threading.active_count()) == ([], before)
    assert not (tmp_path / "jobs.db").exists()


def test_a_database_that_is_not_there_is_not_asked_before_it_is_used() -> None:
    Jobs("postgresql://nobody@localhost:1/nowhere").declare("say")


def test_every_test_of_the_conformance_suite_has_a_name_of_its_own() -> None:
    modules = [
        Path(file).read_text()
        for file in Path(str(conformance.__file__)).parent.glob("*.py")
    ]  # fmt: skip
    names = Counter(
        line.split("(")[0].removeprefix("def ")
        for text in modules
        for line in text.splitlines()
        if line.startswith("def test_")
    )
    assert [name for name, times in names.items() if times > 1] == []
    assert names.keys() <= vars(conformance).keys()
