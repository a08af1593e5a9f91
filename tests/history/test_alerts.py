"""Alerts and the history checker: a worker that dies with one loses none, and what is broken is found."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sloppyjobs import FakeClock, Jobs, Retry
from sloppyjobs.storage.admin.alerts import Alerts
from sloppyjobs.testing import history
from sloppyjobs.testing.history import Log, check

ALERTS_KILLED = Path(__file__).with_name("alerts_killed.py")


def _die(jobs: Jobs, name: str = "dies") -> None:
    if jobs.definitions.get(name) is None:
        jobs.declare(name, retry=Retry(max_attempts=1))
    jobs.enqueue(name)
    jobs.fail(jobs.claim("w", names=(name,))[0], ValueError("no"))


def _killed(url: str, *how: str) -> None:
    worker = subprocess.Popen([sys.executable, str(ALERTS_KILLED), url, *how])
    assert worker.wait(120) == -signal.SIGKILL


@pytest.mark.slow
def test_a_worker_that_is_killed_between_deciding_and_telling_loses_nothing(
    database_url: str, jobs: Jobs, log: Log, eventually: Callable[..., Any]
) -> None:
    _die(jobs)
    _killed(database_url)
    [alert] = jobs.admin.list_alerts()
    assert alert.status == "pending"
    assert {one.invariant for one in check(jobs, log, within=0)} == {"I2", "I13"}
    told: list[Any] = []
    jobs.declare_alert("dead", on="dead", deliver=told.append)
    worker = jobs.create_worker(poll_interval=0.1)
    worker.start()
    try:
        eventually(lambda: told)
        history.assert_sound(jobs, log, within=60)
    finally:
        worker.stop()
    assert [(one.rule, one.cause) for one in told] == [("dead", alert.cause)]


@pytest.mark.slow
def test_an_alert_that_is_written_before_its_delivery_is_found(ready_sqlite_url: str, log: Log) -> None:
    jobs = Jobs(ready_sqlite_url)
    _die(jobs)
    _killed(ready_sqlite_url, "broken")
    found = check(jobs, log)
    assert {one.invariant for one in found} == {"I13"}
    assert "no job that delivers it" in found[0].seen


def test_two_alerts_in_one_window_are_found(
    timed_jobs: Jobs, log: Log, jobs_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed_jobs.declare_alert("late", on="late", longer_than=1, deliver=lambda _alert: None)
    timed_jobs.declare("waits", queue="nobody")
    timed_jobs.enqueue("waits")
    worker = timed_jobs.create_worker(queues=("none",))
    jobs_clock.advance(61)
    worker.run_once()
    jobs_clock.advance(1)
    worker.run_once()
    assert check(timed_jobs, log) == []
    assert len(timed_jobs.admin.list_alerts()) == 1
    monkeypatch.setattr(Alerts, "last", lambda *_given, **_muted: {})
    monkeypatch.setattr(Alerts, "_is_quiet", lambda *_given, **_muted: False)
    jobs_clock.advance(1)
    worker.run_once()
    found = check(timed_jobs, log)
    assert {one.invariant for one in found} == {"I13"}
    assert {"two alerts in one window" in one.seen for one in found} == {True}
