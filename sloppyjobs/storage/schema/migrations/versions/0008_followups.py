"""Jobs say what hangs on them, so that a job on which nothing hangs costs nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """One column more, of jobs and of archived jobs."""
    tables = op.get_context().opts["sloppy_tables"]
    for name in ("jobs", "job_archive"):
        op.add_column(f"{tables.prefix}{name}", sa.Column("followups", sa.Integer), schema=tables.schema)
