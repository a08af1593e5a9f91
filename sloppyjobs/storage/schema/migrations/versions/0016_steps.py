"""Steps, sleeps and signals of handlers."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import ByteText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import create_index, create_table, full_name, style

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """One table more."""
    create_table(
        "job_steps",
        sa.Column("job_id", ByteText, nullable=False),
        sa.Column("kind", Word, nullable=False),
        sa.Column("name", ByteText, nullable=False),
        sa.Column("state", Word, nullable=False),
        sa.Column("attempt_number", sa.Integer, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("finished_at", Instant),
        sa.Column("wake_at", Instant),
        sa.Column("run_seconds", Number),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("result", LongText),
        sa.Column("token", ByteText),
        sa.PrimaryKeyConstraint("job_id", "kind", "name", name="pk_" + full_name("job_steps"), **style().long_key),
    )
    create_index("job_steps", "wake", "wake_at", "job_id", where="wake_at IS NOT NULL")
