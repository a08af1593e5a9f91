"""The archive can be searched: by name, key and time of creation. How a job ended, and what it was restored as."""

from __future__ import annotations

from sloppyjobs.storage.schema.column_types import ByteText, Word
from sloppyjobs.storage.schema.instants import Instant
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Three columns of archived jobs, and four indexes."""
    add_column("job_archive", "ended_as", Word)
    add_column("job_archive", "restored_as", ByteText)
    add_column("job_archive", "restored_at", Instant)
    create_index("job_archive", "created", "created_at", "id")
    create_index("job_archive", "name", "name", "created_at", "id")
    for key in ("business_key", "idempotency_key"):
        create_index("job_archive", key, key, "created_at", "id", where=f"{key} IS NOT NULL")
