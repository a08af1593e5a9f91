"""With a release skipped, a child let go early, a condition ignored …: the checker finds each of them.

What is broken here is the library itself, on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import Jobs, Result
from sloppyjobs.domain.dependencies import EdgeState, Readiness
from sloppyjobs.storage.jobs import dependencies
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Log, check


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


def run(jobs: Jobs) -> None:
    """A graph with every kind of edge, one of which is held up by a dead job."""
    jobs.define("count", lambda _ctx, payload: {"rows": payload})
    with jobs.workflow("graph") as flow:
        first = flow.add("count", 3)
        sides = [flow.add("greet", after=first), flow.add("count", 0, after=first, when=Result("/rows", ">", 2))]
        flow.add("greet", after=sides)
        # Its parents never end together.
        flow.add("greet", after=[first, sides[0]])
        flow.add("greet", after=[first, *sides], on="failure", any=True)
        flow.add("greet", after=sides[1], when=Result("/rows", ">", 0))
        failing = flow.add("broken", max_attempts=1)
        flow.add("greet", after=failing, on="always")
        held = flow.add("greet", after=failing)
        flow.add("greet", after=held)
    drain(jobs)


def broken(jobs: Jobs, log: Log) -> set[str]:
    return {violation.invariant for violation in check(jobs, log, within=0)}


def test_a_graph_that_ran_is_sound(jobs: Jobs, log: Log) -> None:
    run(jobs)
    assert broken(jobs, log) == set()
    [flow] = jobs.admin.list_workflows()
    assert flow.counts == {"succeeded": 6, "cancelled": 2, "dead": 1, "waiting": 2}


def _release_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies.Dependencies, "release", lambda *_: 0)


def _forget_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies.Dependencies, "_decide", lambda *_: 0)


def _ready_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    real = dependencies.readiness

    def eager(numbers: Any, *, any_parent: bool) -> Readiness:
        return Readiness.READY if numbers.get(EdgeState.MET) else real(numbers, any_parent=any_parent)

    monkeypatch.setattr(dependencies, "readiness", eager)


def _start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "readiness", lambda *_, **__: Readiness.READY)


def _ignore_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Result, "holds", lambda *_: True)


def _dead_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "edge_state", lambda *_: EdgeState.MET)


@pytest.mark.parametrize(
    "mutate",
    [_release_nobody, _forget_edges, _ready_with_one, _start_at_once, _dead_is_done],
    ids=lambda one: one.__name__,
)
def test_the_checker_finds(
    jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with monkeypatch.context() as patch:
        mutate(patch)
        run(jobs)
    assert "I18" in broken(jobs, log)


def test_the_checker_finds_a_result_that_nobody_looked_at(
    jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _ignore_results(patch)
        run(jobs)
    assert "I18" in broken(jobs, log)
