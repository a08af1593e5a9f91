"""Which keys of which jobs are secret is known to everybody who reads the database."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText
from sloppyjobs.storage.schema.migrations.steps import create_table, full_name, style

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """One table more."""
    create_table(
        "job_redactions",
        sa.Column("name", ByteText, nullable=False),
        sa.Column("key", ByteText, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name="pk_" + full_name("job_redactions"), **style().long_key),
    )
