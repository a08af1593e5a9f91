"""Members of batches are listed by their own rows until they end: the index of jobs does not move with each status."""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import create_index, drop_index, style

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """The index by which the members of a batch are listed holds those that have ended, in the order of their ids."""
    drop_index("jobs", "batch")
    create_index("jobs", "batch", "batch_id", "id", where=style().ended_members or "batch_id IS NOT NULL")
