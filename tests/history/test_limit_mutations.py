"""With a permit forgotten, taken twice, or a line that nobody looks at: the checker finds each of them in a real run.

What is broken here is the library itself, on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from side_by_side import run_side_by_side

from sloppyjobs import Jobs
from sloppyjobs.storage.jobs import permit_choice, permit_line, permit_sweep, permits
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Log, check


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


def broken(jobs: Jobs, log: Log, within: float | None = None) -> set[str]:
    return {violation.invariant for violation in check(jobs, log, within=within)}


def fill(jobs: Jobs, number: int = 6) -> None:
    jobs.limit("api", concurrency=2)
    jobs.enqueue_many([("greet", None, {"resource": "api", "partition": "t"})] * number)


def test_jobs_under_a_limit_are_sound(jobs: Jobs, log: Log) -> None:
    fill(jobs)
    drain(jobs)
    assert broken(jobs, log, within=0) == set()
    run_side_by_side(jobs, concurrency=2)
    assert broken(jobs, log, within=0) == set()


def _forget_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permits.Permits, "give_back", lambda *_: 0)
    monkeypatch.setattr(permit_sweep.PermitSweep, "remove_orphans", lambda _: 0)


def _forget_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permit_line.PermitLine, "release", lambda *_: 0)


@pytest.mark.parametrize("change", [_forget_to_give_back, _forget_the_line])
def test_what_is_forgotten_is_found(
    jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    change(monkeypatch)
    fill(jobs)
    drain(jobs)
    assert "I15" in broken(jobs, log, within=0)


def test_more_at_once_than_the_limit_allows(jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    class AnyNumber(permit_choice.FreeSlots):
        def __init__(self, _concurrency: int, held: set[int]) -> None:
            super().__init__(1000, held)

    monkeypatch.setattr(permit_choice, "FreeSlots", AnyNumber)
    run_side_by_side(jobs, concurrency=2)
    assert "I15" in broken(jobs, log)
