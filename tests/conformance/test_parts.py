"""The suite is a black box, and its parts are the whole of it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from sloppyjobs.testing import conformance

FILES = sorted(Path(str(conformance.__file__)).parent.glob("*.py"))
PARTS = ("admin", "claim", "enqueue", "leases", "locks", "retention", "run", "schedules", "settle", "sql", "control")
INSIDE = re.compile(r"sqlalchemy|storage\.(tables|engine|read|write|writing|dialect)\b|setattr\(\"sloppyjobs\.storage")


@pytest.mark.parametrize(
    "file", [file for file in FILES if not file.stem.startswith("sql")], ids=lambda file: file.stem
)
def test_what_is_not_about_sql_asks_ports_alone(file: Path) -> None:
    assert [line for line in file.read_text().splitlines() if INSIDE.search(line)] == []


def test_the_parts_are_the_whole_suite() -> None:
    named: dict[str, list[str]] = {}
    for part in PARTS:
        module = importlib.import_module(f"{conformance.__name__}.{part}")
        assert module.__doc__
        for name in vars(module):
            if name.startswith("test_"):
                named.setdefault(name, []).append(part)
    assert [name for name, parts in named.items() if len(parts) > 1] == []
    assert named.keys() == {name for name in vars(conformance) if name.startswith("test_")}
