"""On SQLite a job stays where it is in the index of its workflow, whatever its status.

A workflow has ten thousand members at most, so that to look at them all is bounded.
"""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import create_index, drop_index, style

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """The index is made anew, without the status."""
    if "status" not in style().members_of_workflow:
        drop_index("jobs", "workflow")
        create_index("jobs", "workflow", *style().members_of_workflow, where="workflow_id IS NOT NULL")
