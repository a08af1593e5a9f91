"""The tables of batches: the batches, the rows of their members, and their numbers."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, SmallInteger, Table

from sloppyjobs.storage.schema.column_types import ByteText, KeyText, LongText, Number, Word
from sloppyjobs.storage.schema.instants import Instant


def batches(prefix: str, metadata: MetaData) -> None:
    """Jobs that are counted together, and what is called for when they have ended."""
    batches = Table(
        f"{prefix}job_batches",
        metadata,
        Column("id", ByteText, primary_key=True),
        Column("name", ByteText, nullable=False),
        Column("status", Word, nullable=False),
        Column("success_rate", Number, nullable=False),
        Column("callbacks", LongText),
        Column("metadata", LongText),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
        Column("sealed_at", Instant),
        Column("finished_at", Instant),
        Column("first_ended_at", Instant),
        Column("first_status", Word),
        Column("succeeded_at", Instant),
        Column("cancelled_at", Instant),
        Column("action", Word),
        Column("action_after", ByteText),
        Column("actor", KeyText),
        Column("reason", LongText),
    )
    Index(f"ix_{prefix}job_batches_status", batches.c.status, batches.c.id)
    Index(f"ix_{prefix}job_batches_action", batches.c.action, batches.c.id)


def batch_members(prefix: str, metadata: MetaData) -> None:
    """Members that have not ended, and those that are dead."""
    Table(
        f"{prefix}job_batch_members",
        metadata,
        Column("batch_id", ByteText, primary_key=True),
        Column("state", SmallInteger, primary_key=True, autoincrement=False),
        Column("job_id", ByteText, primary_key=True),
    )


def batch_counts(prefix: str, metadata: MetaData) -> None:
    """How many members were added and how they ended, by queue; in shards, so that nobody waits for others."""
    Table(
        f"{prefix}job_batch_counts",
        metadata,
        Column("batch_id", ByteText, primary_key=True),
        Column("queue", ByteText, primary_key=True),
        Column("shard", SmallInteger, primary_key=True, autoincrement=False),
        Column("total", Integer, nullable=False),
        Column("succeeded", Integer, nullable=False),
        Column("dead", Integer, nullable=False),
        Column("cancelled", Integer, nullable=False),
        Column("first_at", Instant),
        Column("last_at", Instant),
    )
