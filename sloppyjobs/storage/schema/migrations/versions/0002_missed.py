"""Schedules remember what they did not fire, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """One column more."""
    tables = op.get_context().opts["sloppy_tables"]
    op.add_column(f"{tables.prefix}recurring_jobs", sa.Column("missed", sa.Text), schema=tables.schema)
