"""One job by its id."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs
from sloppyjobs.storage.schema.column_types import NAME_LENGTH


class JobLookup:
    """Reads single jobs."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get_job(self, job_id: str, connection: Connection | None = None) -> Job:
        """The job with this id, or ``UnknownJob``."""
        self.database.ensure_schema(connection)
        jobs = self.database.tables.jobs
        query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id == possible_id(job_id))
        found = self.database.read(lambda c: read_jobs(self.database.dialect, c, query), connection)
        if not found:
            raise unknown(job_id)
        return found[0]


def possible_id(job_id: object) -> str:
    """The id, if a row could have it; ``UnknownJob`` for what no database would even take as text."""
    if not isinstance(job_id, str) or len(job_id) > NAME_LENGTH or not job_id.isprintable():
        raise unknown(job_id)
    return job_id


def unknown(job_id: object) -> errors.UnknownJob:
    """The error for an id that no row has."""
    shown = repr(job_id)
    if len(shown) > 2 * NAME_LENGTH:
        shown = shown[: 2 * NAME_LENGTH] + "…"
    return errors.UnknownJob(f"no job has the id {shown}; it may have been purged")
