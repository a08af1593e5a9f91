"""Fewer moves in indexes with each status, and no rows that grow, where a database has no partial indexes.

Where the style of the database says so, the tables have been made in this form since the first version.
"""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import (
    add_own_columns,
    create_index,
    drop_column,
    drop_index,
    printed,
    style,
)

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """One index for lists and leases; room in the rows of jobs and attempts."""
    if not style().leases_listed or printed():
        return
    drop_index("jobs", "list", without="locked_until")
    create_index("jobs", "list", "status", "created_at", "id", where=style().settled_list, distinct=True)
    drop_index("jobs", "lease")
    add_own_columns("jobs")
    add_own_columns("job_attempts")
    drop_column("jobs", "is_running")
