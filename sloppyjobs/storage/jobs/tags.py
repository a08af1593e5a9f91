"""The rows of tags, by which jobs are listed: one for each tag of each job, in whose own row they are as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Text, bindparam, delete, insert, select
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

    def build() -> Any:
        created_at = select(jobs.created_at).where(jobs.id == bindparam("job")).scalar_subquery()
        return delete(tags).where(
            tags.c.tag == bindparam("tag"), tags.c.created_at == created_at, tags.c.job_id == bindparam("job")
        )

    tagged = select(jobs.id, jobs.tags).where(jobs.id.in_(job_ids), jobs.tags.is_not(None))
    found: list[dict[str, str]] = []
    for job_id, text in connection.execute(tagged).all():
        try:
            found += [{"tag": tag, "job": job_id} for tag in words(text)]
        except (ValueError, msgspec.DecodeError):  # no ValueError in older versions of msgspec
            # Nobody can say any more what its tags were.
            connection.execute(delete(tags).where(tags.c.job_id == job_id))
    database.prepared("remove tags", build).many(cursor_of(connection), found)
