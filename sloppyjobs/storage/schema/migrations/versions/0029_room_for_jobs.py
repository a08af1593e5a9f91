"""Pages of jobs keep room for the next versions of their rows, where the database writes these beside the old ones.

Pages that are there already are filled anew only as their rows go.
"""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import apply_settings

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """A setting of the table."""
    apply_settings("jobs")
