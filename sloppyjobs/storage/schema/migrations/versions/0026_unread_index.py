"""No index of business keys by the ends of their windows: no query reads it, and every new key paid for it."""

from __future__ import annotations

from sloppyjobs.storage.schema.migrations.steps import drop_index

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """The index goes."""
    drop_index("job_keys", "reserved")
