"""Engines of our own making."""

from __future__ import annotations

from typing import Any

from sqlalchemy import URL, Engine, event

from sloppyjobs.storage.dialects.postgres import connections, drivers


def own_engine(url: URL) -> Engine:
    """An engine whose sessions are in UTC, which saves converting every instant."""
    engine = drivers.create(
        url, pool_size=10, max_overflow=50, pool_use_lifo=True, connect_args=connections.connect_args(url)
    )

    @event.listens_for(engine, "connect")
    def in_utc(driver: Any, _record: Any) -> None:
        drivers.run_alone(driver, "SET TIME ZONE 'UTC'")

    return engine
