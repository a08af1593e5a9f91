"""Jobs say what hangs on them, so that a job on which nothing hangs costs nothing."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.migrations.steps import add_column

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """One column more, of jobs and of archived jobs."""
    for table in ("jobs", "job_archive"):
        add_column(table, "followups", sa.Integer)
