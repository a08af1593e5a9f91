"""Fill the tables by SQL and time claims beside what lies there; the inside of ``growth``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from sqlalchemy import text

from sloppyjobs import Jobs
from sloppyjobs.storage.ports.claims import ClaimRequest

CLAIMS = 200
OURS = 10 * CLAIMS * 2 + 1000
"""Jobs that are claimed: ten at a time, before and after ANALYZE, and some to spare."""

COLUMNS = (
    "id, name, queue, status, priority, run_at, created_at, updated_at, attempt_count, max_attempts, payload, "
    "finished_at"
)

POSTGRES_FILL = f"""
INSERT INTO sloppy_jobs ({COLUMNS})
SELECT 'job_' || CAST(:prefix AS text) || lpad(n::text, 25, '0'),
       CAST(:name AS text), CAST(:queue AS text), CAST(:status AS text), 0,
       clock_timestamp() + make_interval(secs => CAST(:offset AS float8) + n * 0.0001),
       clock_timestamp() - interval '1 day', clock_timestamp() - interval '1 day', 0, 3, '{{}}',
       CASE WHEN CAST(:status AS text) = 'succeeded' THEN clock_timestamp() END
FROM generate_series(1, CAST(:rows AS int)) AS n
"""

SQLITE_FILL = f"""
WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :rows)
INSERT INTO sloppy_jobs ({COLUMNS})
SELECT 'job_' || :prefix || printf('%025d', n), :name, :queue, :status, 0,
       strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', (:offset + n * 0.0001) || ' seconds'),
       strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 day'),
       strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-1 day'), 0, 3, '{{}}',
       CASE WHEN :status = 'succeeded' THEN strftime('%Y-%m-%dT%H:%M:%f000Z', 'now') END
FROM series
"""


def measure(
    url: str, small: str, rows: int, status: str = "queued", queue: str = "default", name: str = "noop"
) -> dict[str, Any]:
    """Milliseconds of a claim, an idle claim and a sweep, without statistics and with them; and how many times as long
    as beside nothing, in the database ``small``. The two take turns, so that a slow second of the machine hits both.
    """
    both = [Jobs(url), Jobs(small)]
    _fill(both[0], rows, status, queue, name)
    for jobs in both:
        jobs.declare("noop")
        jobs.enqueue_many([("noop", {})] * OURS)
    found = {"none": _times(both)}
    for jobs in both:
        with jobs.storage.engine.connect() as connection:
            connection.execute(text("ANALYZE"))
            connection.commit()
    return {**found, "fresh": _times(both)}


def _fill(jobs: Jobs, rows: int, status: str, queue: str, name: str) -> None:
    statement = POSTGRES_FILL if jobs.storage.dialect.name == "postgresql" else SQLITE_FILL
    # A day from now, or an hour ago, so that nothing becomes due while we measure.
    offset = 86_400 if status == "scheduled" else -3600
    values = {"rows": rows, "status": status, "queue": queue, "name": name, "prefix": "b", "offset": offset}
    with jobs.storage.engine.begin() as connection:
        connection.execute(text(statement), values)


def _times(both: Sequence[Jobs]) -> dict[str, tuple[float, float]]:
    ours = ClaimRequest("worker_growth", ("default",), frozenset({"noop"}), limit=10, lease=3600)
    empty = ours._replace(queues=("empty",))

    def claim(jobs: Jobs) -> None:
        claimed = jobs.storage.claim(ours)
        assert len(claimed) == 10

    return {
        "claim": _in_turn(both, claim),
        "idle_claim": _in_turn(both, lambda jobs: jobs.storage.claim(empty)),
        "sweep": _in_turn(both, lambda jobs: jobs.storage.sweep()),
    }


def _in_turn(both: Sequence[Jobs], work: Callable[[Jobs], object]) -> tuple[float, float]:
    """Milliseconds in the first, and how many times those in the second."""
    times: tuple[list[float], list[float]] = ([], [])
    for jobs in both:
        for _ in range(5):
            work(jobs)
    for _ in range(CLAIMS):
        for jobs, taken in zip(both, times, strict=True):
            began = time.perf_counter()
            work(jobs)
            taken.append(time.perf_counter() - began)
    large, small = map(median, times)
    return large * 1000, large / small
