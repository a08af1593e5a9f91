"""Failed logins are counted once for all server processes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sloppyjobs.storage.schema.instants import Instant

revision = "0006"
down_revision = "0005"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")


def upgrade() -> None:
    """One table more."""
    tables = op.get_context().opts["sloppy_tables"]
    op.create_table(
        f"{tables.prefix}job_throttles",
        sa.Column("client", NAME, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("since", Instant, nullable=False),
        schema=tables.schema,
    )
