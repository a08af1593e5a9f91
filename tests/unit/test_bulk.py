"""What a bulk command costs: statements that do not grow with the jobs, and a fraction of the time of single ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from sloppyjobs.admin.bulk import CHUNK
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene

SOURCES = {
    "retry": "dead",
    "run_now": "scheduled",
    "pause": "queued",
    "resume": "paused",
    "cancel": "processing",
    "delete": "succeeded",
}


@pytest.fixture
def jobs(make_storage: Callable[..., Any]) -> Jobs:
    return Jobs(make_storage())


@contextmanager
def statements(jobs: Jobs) -> Iterator[list[str]]:
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, text: str, values: Any, _context: Any, many: bool) -> None:
        sent.extend([text] * (len(values) if many else 1))

    event.listen(jobs.storage.engine, "before_cursor_execute", note)
    yield sent
    event.remove(jobs.storage.engine, "before_cursor_execute", note)


def made(jobs: Jobs, number: int, command: str) -> str:
    """So many jobs to which the command can be done, in a queue of their own; its name."""
    queue = f"of-{number}"
    running = {"locked_by": "w", "locked_until": jobs.storage.clock.now()} if command == "cancel" else {}
    scene.many_rows(jobs, number, SOURCES[command], start=number, queue=queue, attempt_count=1, **running)
    return queue


@pytest.mark.parametrize("command", SOURCES)
def test_a_bulk_command_sends_as_many_statements_for_a_thousand_jobs_as_for_a_few(jobs: Jobs, command: str) -> None:
    sent = {}
    for number in (10, CHUNK, 2 * CHUNK):
        queue = made(jobs, number, command)
        with statements(jobs) as sent[number]:
            result = jobs.admin.bulk(command, {"queue": queue})
        assert (result.done, result.skipped) == (number, {})
    assert len(sent[CHUNK]) <= len(sent[10])
    assert len(sent[2 * CHUNK]) <= 2 * len(sent[10])
    assert len(sent[10]) < 25


def test_a_bulk_command_takes_a_fraction_of_the_time_of_single_commands(jobs: Jobs) -> None:
    # Once is enough: a machine that is busy otherwise makes either of them slow at times.
    assert any(_times_as_fast(jobs, number) > 3 for number in (400, 900, 2_000))


def _times_as_fast(jobs: Jobs, number: int) -> float:
    queue = made(jobs, number, "retry")
    ids = scene.ids_of(jobs.admin.list_jobs("dead", queue=queue, page_size=200).items)
    started = time.perf_counter()
    for id in ids:
        jobs.admin.retry(id)
    single = (time.perf_counter() - started) / len(ids)
    started = time.perf_counter()
    done = jobs.admin.bulk("retry", {"queue": queue}).done
    assert done == number - len(ids)
    return single / ((time.perf_counter() - started) / done)
