"""Which keys of which jobs are secret is known to everybody who reads the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")


def upgrade() -> None:
    """One table more."""
    tables = op.get_context().opts["sloppy_tables"]
    name = f"{tables.prefix}job_redactions"
    op.create_table(
        name,
        sa.Column("name", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name=f"pk_{name}"),
        schema=tables.schema,
    )
