"""What ``make test`` divides between its two runs is whole."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_whole_suite_runs_by_each_driver_once() -> None:
    told = re.findall(r"SLOPPYJOBS_TEST_DRIVERS=(\w+)", (ROOT / "Makefile").read_text())
    source = (ROOT / "tests" / "conformance" / "test_drivers.py").read_text()
    known = re.search(r'"SLOPPYJOBS_TEST_DRIVERS", "([\w ]+)"', source)
    assert known is not None
    assert sorted(told) == sorted(known[1].split())


def test_what_is_left_to_the_newest_set_is_there() -> None:
    told = re.search(r"^NEWEST_ALONE := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert told is not None
    names = set(told[1].replace("\\", " ").split())
    assert len(names) > 5
    assert names <= {file.name for file in (ROOT / "tests" / "unit").iterdir()}
