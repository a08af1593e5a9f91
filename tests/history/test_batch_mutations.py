"""With a count skipped, a callback called twice, an end that nobody looks for …: the checker finds each of them.

What is broken here is the library itself, on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sloppyjobs import Jobs
from sloppyjobs.domain import batches as domain
from sloppyjobs.storage.batches import batches, members
from sloppyjobs.testing import drain
from sloppyjobs.testing.history import Log, check


@pytest.fixture
def database_url(ready_sqlite_url: str) -> str:
    return ready_sqlite_url


def fill(jobs: Jobs, *names: str) -> str:
    jobs.define("report", lambda _ctx, _payload: None)
    callbacks: Any = {f"on_{kind}": ("report", kind) for kind in domain.CALLBACKS}
    with jobs.batch("import", **callbacks) as batch:
        batch.enqueue_many([(name, None, {"max_attempts": 1}) for name in names])
    return batch.id


def broken(jobs: Jobs, log: Log) -> set[str]:
    return {violation.invariant for violation in check(jobs, log, within=0)}


def test_a_batch_that_ended_is_sound(jobs: Jobs, log: Log) -> None:
    fill(jobs, "greet", "broken")
    drain(jobs)
    assert broken(jobs, log) == set()


def _forget_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members.BatchMembers, "_count", lambda *_: None)


def _forget_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "remove_members", lambda *_: 0)


def _forget_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches.Batches, "end_in", lambda *_: False)


def _forget_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "due_callbacks", lambda *_, **__: ())


def _call_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "due_callbacks", lambda *_, **__: domain.CALLBACKS)


def _call_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = domain.decode_callbacks

    def twice(text: str | None) -> Any:
        once = real(text)
        return once | {f"{kind} again": replace(one, id=one.id + "2") for kind, one in once.items()}

    monkeypatch.setattr(batches, "decode_callbacks", twice)
    due = domain.due_callbacks
    monkeypatch.setattr(
        batches,
        "due_callbacks",
        lambda *given, **named: [word for kind in due(*given, **named) for word in (kind, f"{kind} again")],
    )


def _end_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches.BatchRows, "members", lambda *_: [])
    monkeypatch.setattr(batches.BatchRows, "is_over", lambda *_: True)


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "ends are not counted": _forget_counts,
    "rows are not removed": _forget_rows,
    "nobody looks whether it is over": _forget_to_look,
    "callbacks are forgotten": _forget_callbacks,
    "callbacks that are not due": _call_for_all,
    "callbacks are called twice": _call_twice,
    "it ends before its jobs": _end_too_early,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_broken_is_found(jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch, mutation: str) -> None:
    MUTATIONS[mutation](monkeypatch)
    fill(jobs, "greet", "broken", "greet")
    if mutation != "it ends before its jobs":
        drain(jobs)
        assert broken(jobs, log) == {"I14"}
    else:
        assert "I14" in broken(jobs, log)


def test_an_edge_whose_meaning_is_lost_is_found(jobs: Jobs, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real = members.ending
    monkeypatch.setattr(members, "ending", lambda source, target: None if target == "dead" else real(source, target))
    fill(jobs, "greet", "broken")
    drain(jobs)
    assert "I14" in broken(jobs, log)
