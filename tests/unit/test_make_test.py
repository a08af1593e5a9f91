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
