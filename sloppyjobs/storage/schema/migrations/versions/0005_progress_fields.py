"""Progress has fields of the application's, and dead jobs are grouped by their name too."""

from __future__ import annotations

from sloppyjobs.storage.schema.column_types import LongText
from sloppyjobs.storage.schema.migrations.steps import add_column, create_index, drop_index, style

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """One column more, of jobs and of archived jobs, and an index that has the name."""
    add_column("jobs", "progress_fields", LongText)
    add_column("job_archive", "progress_fields", LongText)
    drop_index("jobs", "dead")
    columns = ("error_type", "error_frame", "name", "created_at", "id")
    create_index("jobs", "dead", *columns, where=style().status_in("dead"))
