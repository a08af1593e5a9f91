"""Edges between jobs are decided in their places, and the rows of short tables are written once.

No index holds the state of an edge, and pages have room for it. SQLite keeps a table in the order of its primary key if
it is told to; otherwise each row is written into the table and into the index of the key.
"""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, LongText, Word
from sloppyjobs.storage.schema.migrations.steps import apply_settings, create_index, drop_index, keep_by_key

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """The index by which the children of a job are found is without the state; two tables are kept by their keys."""
    drop_index("job_dependencies", "parent")
    keep_by_key(
        "job_dependencies",
        sa.Column("child_id", ByteText, primary_key=True),
        sa.Column("parent_id", ByteText, primary_key=True),
        sa.Column("needs", Word, nullable=False),
        sa.Column("result_test", LongText),
        sa.Column("state", sa.SmallInteger, nullable=False),
    )
    create_index("job_dependencies", "parent", "parent_id", "child_id")
    apply_settings("job_dependencies")
    keep_by_key(
        "job_batch_members",
        sa.Column("batch_id", ByteText, primary_key=True),
        sa.Column("state", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("job_id", ByteText, primary_key=True),
    )
