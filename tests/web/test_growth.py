"""No page asks more of the database because there are more jobs; ``growth.py`` measures the time as well."""

from __future__ import annotations

from pathlib import Path

import growth

from sloppyjobs import Jobs, Retry


def _queries(folder: Path, count: int) -> dict[str, int]:
    jobs = Jobs(f"sqlite:///{folder / str(count)}.db")
    jobs.storage.init()
    jobs.define("work", lambda ctx, payload: None, retry=Retry(max_attempts=1))
    growth.fill(jobs, count)
    found = {path: queries for path, (_, queries) in growth.measure(jobs, rounds=1).items()}
    jobs.storage.close()
    return found


def test_the_number_of_queries_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    few, many = _queries(tmp_path, 400), _queries(tmp_path, 8_000)
    assert few == many
    assert max(many.values()) <= 12
