"""What operators want of a worker, and what it says of its process."""

from __future__ import annotations

import sqlalchemy as sa

from sloppyjobs.storage.schema.column_types import Word
from sloppyjobs.storage.schema.migrations.steps import add_column

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Columns of workers."""
    add_column("job_workers", "wanted", Word)
    add_column("job_workers", "memory", sa.BigInteger)
    add_column("job_workers", "done", sa.BigInteger)
    add_column("job_workers", "failed", sa.BigInteger)
