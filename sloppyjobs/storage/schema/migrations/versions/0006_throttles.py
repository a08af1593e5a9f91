"""Failed logins are counted once for all server processes."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import create_table

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """One table more."""
    create_table(
        "job_throttles",
        sa.Column("client", ByteText, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since", Instant, nullable=False),
    )
