"""SQLite under eight writing processes: nobody is told that the database is locked, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, insert, select, text

from sloppyjobs import Jobs

EACH = 40
notes = Table("notes", MetaData(), Column("number", Integer, primary_key=True))


def write(url: str, number: int, begin: Callable[[], object]) -> list[str]:
    jobs = Jobs(url)
    jobs.declare("note")
    begin()
    acknowledged = []
    for round in range(EACH // 4):
        acknowledged.append(jobs.enqueue("note", round).id)
        acknowledged += [job.id for job in jobs.enqueue_many([("note", round)] * 2)]
        with jobs.storage.engine.begin() as connection:
            connection.execute(insert(notes).values(number=number * 1_000 + round))
            acknowledged.append(jobs.enqueue("note", round, connection=connection).id)
        with jobs.lock(f"own-{number}"):
            for claim in jobs.claim(f"w{number}", limit=2):
                assert jobs.extend(claim, 60)
                assert jobs.complete(claim)
    return acknowledged


def test_eight_writing_processes_lose_nothing_and_see_no_lock(sqlite_url: str, crowd: Any) -> None:
    jobs = Jobs(sqlite_url)
    jobs.storage.init()
    notes.create(jobs.storage.engine)
    acknowledged = [job_id for share in crowd("write", sqlite_url) for job_id in share]
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.connect() as connection:
        written = Counter(connection.execute(select(table.c.id)).scalars())
        assert written == Counter(acknowledged)
        assert len(written) == 8 * EACH
        assert connection.execute(select(func.count()).select_from(notes)).scalar_one() == 8 * EACH // 4
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
    jobs.storage.close()


def test_a_reader_is_not_held_up_by_a_writer(sqlite_url: str) -> None:
    jobs = Jobs(sqlite_url)
    jobs.storage.init()
    jobs.declare("note")
    job = jobs.enqueue("note")
    writer = create_engine(sqlite_url)
    with writer.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        assert jobs.get(job.id) == job
        connection.rollback()
    writer.dispose()
    jobs.storage.close()


if __name__ == "__main__":
    from crowd import main

    main(globals())
