"""The rows of tags, by which jobs are listed: one for each tag of each job, in whose own row they are as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Text, bindparam, delete, exists, insert, select
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.model import Job
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.rows import words
from sloppyjobs.storage.schema.instants import Instant

_ROW: Mapping[str, TypeEngine[Any]] = {"tag": Text(), "created_at": Instant(), "job_id": Text()}


def write_tags(database: Database, connection: Connection, written: Sequence[Job]) -> None:
    """Write the rows of those new jobs that have tags."""

    def build() -> Any:
        given = database.dialect.given_rows("given", _ROW)
        return insert(database.tables.tags).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    created = {job.created_at for job in written}
    moments = dict(zip(created, map(database.to_driver, created), strict=True))
    rows = [(tag, moments[job.created_at], job.id) for job in written for tag in job.tags]
    if rows:
        statement = database.prepared("write tags", build)
        statement.run(cursor_of(connection), {"given": msgspec.json.encode(rows).decode()})


def remove_tags(database: Database, connection: Connection, job_ids: Sequence[str]) -> None:
    """Remove the rows of these jobs, each found by what the row of its job says."""
    jobs, tags = database.tables.jobs.c, database.tables.tags
    tagged = select(jobs.id, jobs.tags).where(jobs.id.in_(job_ids), jobs.tags.is_not(None))
    found: list[tuple[str, str]] = []
    for job_id, text in connection.execute(tagged).all():
        try:
            found += [(tag, job_id) for tag in words(text)]
        except (ValueError, msgspec.DecodeError):  # no ValueError in older versions of msgspec
            # Nobody can say any more what its tags were.
            connection.execute(delete(tags).where(tags.c.job_id == job_id))
    if not found:
        return
    cursor = cursor_of(connection)
    if database.dialect.trip_for_each:
        at_once = database.prepared("remove many tags", lambda: _remove_given(database))
        at_once.run(cursor, {"given": msgspec.json.encode(found).decode()})
    else:
        one = database.prepared("remove tags", lambda: _remove_one(database))
        one.many(cursor, [{"tag": tag, "job": job_id} for tag, job_id in found])


def _remove_one(database: Database) -> Any:
    jobs, tags = database.tables.jobs.c, database.tables.tags
    created_at = select(jobs.created_at).where(jobs.id == bindparam("job")).scalar_subquery()
    return delete(tags).where(
        tags.c.tag == bindparam("tag"), tags.c.created_at == created_at, tags.c.job_id == bindparam("job")
    )


def _remove_given(database: Database) -> Any:
    jobs, tags, same = database.tables.jobs.c, database.tables.tags, database.dialect.same_key
    given = database.dialect.given_rows("given", {"tag": Text(), "job": Text()}).c
    whole = (same(tags.c.tag, given.tag), tags.c.created_at == jobs.created_at, tags.c.job_id == jobs.id)
    return delete(tags).where(exists().where(same(jobs.id, given.job), *whole))
