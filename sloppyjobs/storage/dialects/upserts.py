"""Upserts that add to what is there, for databases with ``ON CONFLICT DO UPDATE``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, bindparam, case


def count_up_on_conflict(statement: Any, stats: Table) -> Any:
    """Add to the counters of a minute; ``statement`` is an insert into their table."""
    keys = ("minute", "queue", "name", "shard")
    counters = ("succeeded", "failed", "dead", "cancelled", "run_seconds")
    statement = statement.values({name: bindparam(name) for name in (*keys, *counters)})
    added = {name: stats.c[name] + statement.excluded[name] for name in counters}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=added)


def add_deaths_on_conflict(statement: Any, deaths: Table) -> Any:
    """Add to the deaths of an hour; ``statement`` inserts the rows."""
    c, given = deaths.c, statement.excluded
    added = {
        "deaths": c.deaths + given.deaths,
        "first_at": case((given.first_at < c.first_at, given.first_at), else_=c.first_at),
        "last_at": case((given.last_at > c.last_at, given.last_at), else_=c.last_at),
    }
    return statement.on_conflict_do_update(index_elements=["cause", "queue", "hour"], set_=added)
