"""The order in which the processes of a test run start the tests.

pytest-xdist gives each process an equal share of the list, one after the other, and a process that has nothing left
takes tests from the end of another's share. So each share begins with files of slow tests, and ends with quick ones:
the last that is running never takes long.

Quick tests of a file come database by database. So most processes compile the statements of few databases, and the
connections that they keep stay in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

SLOWEST = (
    "tests/packaging/test_wheel.py",
    "tests/examples/test_blog.py",
    "tests/web/test_browser.py",
    "tests/flask/test_processes.py",
    "tests/web/test_widths_browser.py",
    "tests/docs/test_pages.py",
    "tests/docs/test_site.py",
    "tests/flask/test_migrations.py",
    "tests/web/test_live_browser.py",
    "tests/chaos/test_black_holes.py",
    "tests/concurrency/test_recurring.py",
    "tests/unit/test_admin_plans.py",
    "tests/unit/test_worker_plans.py",
    "tests/unit/test_redact_time.py",
    "tests/worker/test_killing.py",
)
"""Files whose tests take longest: many processes, a browser, or a wait."""
SLOW_FOLDERS = ("flask", "examples", "web", "worker", "chaos", "concurrency", "docs", "typing")
"""Where most of the other tests do such things too. Those of types come when ``make types`` has filled mypy's cache."""


class Item(Protocol):
    """What a test is known by here."""

    @property
    def path(self) -> Path:
        """The file that it is in."""


T = TypeVar("T", bound=Item)


def slow_first(items: Sequence[T], processes: int) -> list[T]:
    """The same tests: the files of slow ones dealt out to the shares, and each share filled up with quick ones."""
    files: dict[Path, list[T]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    ranked = sorted(files, key=_rank)
    slow = [path for path in ranked if _rank(path) < len(SLOWEST) + len(SLOW_FOLDERS)]
    shares: list[list[T]] = [[] for _ in range(processes)]
    for place, path in enumerate(slow):
        shares[place % processes].extend(files[path])
    quick = [item for path in ranked[len(slow) :] for item in sorted(files[path], key=_database)]
    return _filled_up(shares, quick)


def _filled_up(shares: list[list[T]], quick: list[T]) -> list[T]:
    """The shares one after the other, each as long as the next, as far as the quick tests suffice."""
    left = sum(map(len, shares)) + len(quick)
    ordered: list[T] = []
    for place, share in enumerate(shares):
        size = left // (len(shares) - place)
        wanted = max(0, size - len(share))
        ordered += [*share, *quick[:wanted]]
        del quick[:wanted]
        left -= size
    return ordered + quick


def _database(item: Item) -> str:
    """The parameter by which a test gets its database; tests that have none come first."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return str(parameters.get("make_storage", parameters.get("database_url", "")))


def _rank(path: Path) -> int:
    name = f"tests/{path.parent.name}/{path.name}"
    if name in SLOWEST:
        return SLOWEST.index(name)
    folder = path.parent.name
    return len(SLOWEST) + (SLOW_FOLDERS.index(folder) if folder in SLOW_FOLDERS else len(SLOW_FOLDERS))
