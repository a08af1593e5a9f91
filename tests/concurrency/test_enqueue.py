"""Processes that enqueue at once: a key lets one job in, and nothing that was acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import func, select

from sloppyjobs import Jobs

ROUNDS = 10


def with_the_same_keys(url: str, number: int, begin: Callable[[], object]) -> list[Any]:
    jobs = Jobs(url)
    jobs.declare("charge")
    begin()
    answers = []
    for round in range(ROUNDS):
        # Half of them alone, half of them among others, in opposite orders.
        if number % 2:
            answers.append(jobs.enqueue("charge", number, idempotency_key=f"order-{round}"))
        else:
            items = [
                ("charge", number, {"idempotency_key": key}) for key in (f"order-{round}", f"own-{number}-{round}")
            ]
            written = jobs.enqueue_many(items if number % 4 else reversed(items))
            answers += [job for job in written if job.idempotency_key == f"order-{round}"]
    return [(job.idempotency_key, job.id, job.existing) for job in answers]


def count(jobs: Jobs, table: Any) -> int:
    with jobs.storage.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_eight_processes_with_the_same_keys_write_one_job_for_each(database_url: str, crowd: Any) -> None:
    answers = [answer for answers in crowd("with_the_same_keys", database_url) for answer in answers]
    assert len(answers) == 8 * ROUNDS
    for round in range(ROUNDS):
        ids = {job_id for key, job_id, _ in answers if key == f"order-{round}"}
        new = [job_id for key, job_id, existing in answers if key == f"order-{round}" and not existing]
        assert ids == set(new)
        assert len(new) == 1
    jobs = Jobs(database_url)
    tables = jobs.storage.tables
    assert count(jobs, tables.jobs) == count(jobs, tables.events) == ROUNDS + 4 * ROUNDS
    jobs.storage.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())
