"""The rows of tags, by which jobs are listed: one for each tag of each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Text, insert, select
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.model import Job
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.schema.instants import Instant

_ROW: Mapping[str, TypeEngine[Any]] = {"tag": Text(), "created_at": Instant(), "job_id": Text()}


def write_tags(database: Database, connection: Connection, written: Sequence[Job]) -> None:
    """Write the rows of those new jobs that have tags."""

    def build() -> Any:
        given = database.dialect.given_rows("given", _ROW)
        return insert(database.tables.tags).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    to_driver = database.to_driver
    rows = [(tag, to_driver(job.created_at), job.id) for job in written for tag in job.tags]
    if rows:
        statement = database.prepared("write tags", build)
        statement.run(cursor_of(connection), {"given": msgspec.json.encode(rows).decode()})
