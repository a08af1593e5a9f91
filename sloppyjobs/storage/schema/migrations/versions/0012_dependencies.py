"""Dependencies: jobs that wait for other jobs."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, LongText, Word
from sloppyjobs.storage.schema.migrations.steps import create_index, create_table

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """One table more."""
    create_table(
        "job_dependencies",
        sa.Column("child_id", ByteText, primary_key=True),
        sa.Column("parent_id", ByteText, primary_key=True),
        sa.Column("needs", Word, nullable=False),
        sa.Column("result_test", LongText),
        sa.Column("state", sa.SmallInteger, nullable=False),
    )
    create_index("job_dependencies", "parent", "parent_id", "state", "child_id")
