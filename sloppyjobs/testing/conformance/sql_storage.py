"""The tables and the dialect, for the part of the suite that is about SQL databases."""

from __future__ import annotations

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage import SqlStore


def sql_storage(jobs: Jobs) -> SqlStore:
    """The storage of these jobs, which is a SQL database."""
    assert isinstance(jobs.storage, SqlStore)
    return jobs.storage
