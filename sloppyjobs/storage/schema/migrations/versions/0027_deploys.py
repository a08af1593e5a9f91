"""Deploys of applications, and which version of its application a worker runs."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, create_table

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """One table more, and a column of workers."""
    create_table(
        "job_deploys",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("application", ByteText, nullable=False),
        sa.Column("version", ByteText, nullable=False),
        sa.Column("note", LongText),
        sa.Column("actor", KeyText),
        sa.Column("worker_id", ByteText),
        sa.Column("created_at", Instant, nullable=False),
    )
    create_index("job_deploys", "application", "application", "number")
    add_column("job_workers", "app_version", ByteText)
