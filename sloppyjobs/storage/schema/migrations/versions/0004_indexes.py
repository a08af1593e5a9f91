"""Smaller indexes: every enqueue pays for their bytes.

Queued jobs get a list of their own, which needs no status. Where the instant of creation orders claims, the index of
claims has no ids of jobs.
"""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import create_index, drop_index, style

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Replace the indexes."""
    drop_index("jobs", "list")
    create_index("jobs", "list", "status", "created_at", "id", where=style().settled_list, distinct=True)
    create_index("jobs", "list_queued", "created_at", "id", where=style().queued_list, distinct=True)
    if style().claim_by_instant:
        drop_index("jobs", "claim")
        claim = ("queue", "name", "priority DESC", "run_at", "created_at")
        create_index("jobs", "claim", *claim, where=style().status_in("queued"), distinct=True)
