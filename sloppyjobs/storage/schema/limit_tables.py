"""The tables of limits: what resources allow, who holds permits, who waits for one, and buckets of rates."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, MetaData, SmallInteger, Table

from sloppyjobs.storage.schema.column_types import ByteText, LongText, Number
from sloppyjobs.storage.schema.instants import Instant


def limits(prefix: str, metadata: MetaData) -> None:
    """What each resource allows."""
    Table(
        f"{prefix}job_limits",
        metadata,
        Column("name", ByteText, primary_key=True),
        Column("concurrency", Integer),
        Column("rate", Integer),
        Column("per_seconds", Number),
        Column("declared", Boolean, nullable=False),
        # What the code said last: an operator's change holds until the code says something else.
        Column("declared_as", LongText),
        Column("application", ByteText),
        Column("vanished_at", Instant),
        Column("created_at", Instant, nullable=False),
        Column("updated_at", Instant, nullable=False),
    )


def permits(prefix: str, metadata: MetaData) -> None:
    """Permits that are held: the key bounds their number, whoever takes them at once."""
    permits = Table(
        f"{prefix}job_permits",
        metadata,
        Column("resource", ByteText, primary_key=True),
        Column("partition_key", ByteText, primary_key=True),
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("job_id", ByteText, nullable=False),
        Column("taken_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_permits_job", permits.c.job_id)


def parked(prefix: str, metadata: MetaData) -> None:
    """Jobs that wait for a permit, in the order in which they get one."""
    parked = Table(
        f"{prefix}job_parked",
        metadata,
        Column("job_id", ByteText, primary_key=True),
        Column("resource", ByteText, nullable=False),
        Column("partition_key", ByteText, nullable=False),
        # The priority with its sign changed, so that the whole order is ascending.
        Column("place", Integer, nullable=False),
        Column("run_at", Instant, nullable=False),
        Column("created_at", Instant, nullable=False),
        # 1 from its release to its claim, so that no other job is released for the same permit.
        Column("released", SmallInteger, nullable=False),
        Column("released_at", Instant),
    )
    c = parked.c
    line = (c.released, c.resource, c.partition_key, c.place, c.run_at, c.created_at, c.job_id)
    Index(f"ix_{prefix}job_parked_line", *line)


def buckets(prefix: str, metadata: MetaData) -> None:
    """When the buckets of rates are full again."""
    buckets = Table(
        f"{prefix}job_buckets",
        metadata,
        Column("resource", ByteText, primary_key=True),
        Column("partition_key", ByteText, primary_key=True),
        Column("full_at", Instant, nullable=False),
    )
    Index(f"ix_{prefix}job_buckets_full", buckets.c.full_at, buckets.c.resource, buckets.c.partition_key)
