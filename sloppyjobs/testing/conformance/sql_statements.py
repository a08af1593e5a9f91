"""How many statements the admin service sends: as many for a thousand jobs as for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene


@contextmanager
def _statements(jobs: Jobs) -> Iterator[list[str]]:
    """The statements that SQLAlchemy executes inside the block."""
    asked: list[str] = []

    def note(*details: Any) -> None:
        asked.append(details[2])

    event.listen(jobs.storage.engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(jobs.storage.engine, "before_cursor_execute", note)


def test_the_overview_asks_a_fixed_number_of_questions(jobs: Jobs) -> None:
    for place in range(30):
        scene.dead(jobs, type(f"Error{place}", (Exception,), {})("x"), queue=f"queue{place}")
        scene.live_worker(jobs, f"worker_{place}")
    jobs.admin.overview()
    with _statements(jobs) as asked:
        jobs.admin.overview()
    assert len(asked) <= 12


def test_reads_together_share_a_transaction_and_an_instant(jobs: Jobs) -> None:
    job = scene.queued(jobs)

    def page() -> tuple[Any, ...]:
        admin = jobs.admin
        return admin.get_job(job.id), admin.attempts(job.id), admin.events(job.id), admin.explain(job.id)

    separate = page()
    with _statements(jobs) as asked:
        shared = jobs.admin.snapshot(page)
    assert shared == separate
    assert sum("clock" in one or "strftime" in one for one in asked) <= 1
    assert len(asked) <= 9, asked


def test_trouble_does_not_make_the_overview_ask_more(jobs: Jobs) -> None:
    def number() -> int:
        jobs.admin.overview()
        with _statements(jobs) as asked:
            jobs.admin.overview()
        return len(asked)

    def trouble(*places: int) -> None:
        for place in places:
            scene.queued(jobs, queue=f"queue{place}", name=f"unknown{place}")
            scene.queued(jobs, queue=f"queue{place}", name="other")
            scene.queued(jobs, queue=f"held{place}")
            jobs.admin.pause_queue(f"held{place}")

    scene.live_worker(jobs, queues=("queue0", "queue1"))
    scene.queued(jobs, queue="alone")
    before = number()
    trouble(0, 1)
    few = number()
    # Where a recursive query cannot look for the next name, a second name in a queue is a second statement for all.
    assert few <= before + 1
    trouble(*range(2, 12))
    assert number() == few


def test_deaths_of_jobs_that_leave_are_written_by_one_statement_for_a_chunk(jobs: Jobs) -> None:
    made = [scene.dead(jobs, ValueError("no")) for _ in range(20)]
    with _statements(jobs) as asked:
        jobs.admin.bulk("retry", {"ids": [job.id for job in made]})
    # A dialect may write them by the driver's cursor, unseen.
    assert len([statement for statement in asked if "INSERT INTO" in statement and "job_deaths" in statement]) <= 1


def test_without_runs_a_look_is_one_query(jobs: Jobs) -> None:
    jobs.storage.retry_run_rows.due()
    with _statements(jobs) as asked:
        assert jobs.admin.advance_retry_runs() == 0
    assert asked == [], "the prepared statement goes to the driver's cursor, and nothing else is asked"
