"""Schedules remember what they did not fire, and why."""

from __future__ import annotations

from sloppyjobs.storage.schema.column_types import LongText
from sloppyjobs.storage.schema.migrations.steps import add_column

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """One column more."""
    add_column("recurring_jobs", "missed", LongText)
