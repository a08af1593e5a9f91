"""The order in which tests start: none is lost, and each process begins with slow ones and ends with quick ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from start_order import SLOW_FOLDERS, SLOWEST, slow_first

ROOT = Path(__file__).parents[2]


class Item(NamedTuple):
    path: Path
    number: int


class OfDatabase(NamedTuple):
    path: Path
    number: int
    callspec: SimpleNamespace


def _items(files: dict[str, int]) -> list[Item]:
    return [Item(ROOT / file, number) for file, count in files.items() for number in range(count)]


def test_what_is_listed_exists() -> None:
    assert not [file for file in SLOWEST if not (ROOT / file).is_file()]
    assert not [folder for folder in SLOW_FOLDERS if not (ROOT / "tests" / folder).is_dir()]


@pytest.mark.parametrize("processes", [2, 3, 4, 7])
def test_each_share_begins_with_slow_tests_and_ends_with_quick_ones(processes: int) -> None:
    items = _items({"tests/unit/test_ids.py": 1001} | dict.fromkeys(SLOWEST, 10))
    ordered = slow_first(items, processes)
    assert sorted(ordered) == sorted(items)
    left, start = len(items), 0
    for process in range(processes):
        # As pytest-xdist shares them out.
        size = left // (processes - process)
        share = ordered[start : start + size]
        assert str(share[0].path.relative_to(ROOT)) == SLOWEST[process]
        assert share[-1].path.name == "test_ids.py"
        left, start = left - size, start + size


@pytest.mark.parametrize("files", [{}, {SLOWEST[0]: 5}, {"tests/unit/test_ids.py": 5}, {SLOWEST[3]: 9, SLOWEST[1]: 1}])
def test_no_test_is_lost_where_few_are_asked_for(files: dict[str, int]) -> None:
    items = _items(files)
    assert sorted(slow_first(items, 4)) == sorted(items)


def test_quick_tests_of_a_file_come_database_by_database() -> None:
    file = ROOT / "tests/unit/test_ids.py"
    given = [{"database_url": "sqlite"}, {"make_storage": "psycopg2"}, {}, {"database_url": "sqlite", "other": 1}]
    items = [OfDatabase(file, number, SimpleNamespace(params=params)) for number, params in enumerate(given * 2)]
    assert [item.number for item in slow_first(items, 2)] == [2, 6, 1, 5, 0, 3, 4, 7]
