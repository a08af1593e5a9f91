"""The counters of settlements, by minute, queue and name; in shards, so that workers do not wait for each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from zlib import crc32

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.held_rows import HeldRow

STATS_SHARDS = 8
COMMANDS_SHARD = STATS_SHARDS
"""Commands count in a shard that no worker uses: neither waits for the other."""


def count_settled(
    database: Database, cursor: Any, accepted: Sequence[Settlement], found: Mapping[str, HeldRow], now: datetime
) -> None:
    """Count accepted settlements of these rows."""
    _add(database, cursor, now, tally((found[s.job_id].queue, found[s.job_id].name, s) for s in accepted))


def count_plain(database: Database, cursor: Any, accepted: Sequence[Settlement], now: datetime) -> None:
    """Count accepted settlements whose claims said to which queue and name they belong."""
    _add(database, cursor, now, tally((*s.lane, s) for s in accepted if s.lane is not None))


def count_cancelled(database: Database, cursor: Any, lanes: Counter[tuple[str, str]], now: datetime) -> None:
    """Count jobs that a command has cancelled, by queue and name."""
    zero = {"succeeded": 0, "failed": 0, "dead": 0, "run_seconds": 0.0}
    counted = [
        {"queue": queue, "name": name, "shard": COMMANDS_SHARD, **zero, "cancelled": number}
        for (queue, name), number in sorted(lanes.items(), key=repr)
    ]
    _add(database, cursor, now, counted)


def _add(database: Database, cursor: Any, now: datetime, rows: Sequence[Mapping[str, Any]]) -> None:
    minute = database.to_driver(now.replace(second=0, microsecond=0))
    statement = database.prepared("count", database.dialect.count_up)
    statement.many(cursor, [{"minute": minute, **row} for row in rows])


def tally(lanes: Iterable[tuple[str, str, Settlement]]) -> list[dict[str, Any]]:
    """The counters to add, in a fixed order so that two settling workers never wait for each other in a ring."""
    counts: dict[tuple[str, str, int], dict[str, Any]] = defaultdict(
        lambda: {"succeeded": 0, "failed": 0, "dead": 0, "cancelled": 0, "run_seconds": 0.0}
    )
    for queue, name, settlement in lanes:
        row = counts[queue, name, shard_of(settlement.worker_id)]
        path = settlement.decision.path
        row["run_seconds"] += settlement.run_seconds or 0.0
        if path[0] is Status.SUCCEEDED:
            row["succeeded"] += 1
            continue
        row["cancelled"] += path[0] is Status.CANCELLED
        row["failed"] += path[0] is Status.FAILED and settlement.decision.counts
        row["dead"] += path[-1] is Status.DEAD
    return [
        {"queue": queue, "name": name, "shard": shard, **row} for (queue, name, shard), row in sorted(counts.items())
    ]


@lru_cache(maxsize=128)
def shard_of(worker_id: str | None) -> int:
    """The shard of the counters in which a worker counts; a damaged row may name none."""
    return crc32((worker_id or "").encode()) % STATS_SHARDS
