"""Jobs of weeks ago, which a purge has moved to the archive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sloppyjobs.jobs import Jobs
from sloppyjobs.retention import cleanup, purge
from sloppyjobs.storage.clock import FakeClock

DAYS = 40


def fill_archive(past: Jobs, clock: FakeClock) -> None:
    """Charge some orders under a clock that stands weeks ago, then let retention have its way; to where it stood."""
    now = clock.now()
    clock.set(now - timedelta(days=DAYS))
    worker = past.create_worker(recurring=False, maintenance=False)
    for order in range(901, 907):
        payload: dict[str, Any] = {"order": order, "amount": 10 * order, "card": {"number": "4000000000000002"}}
        payload["fails"] = "declined" if order == 903 else None
        past.enqueue("charge-card", payload, business_key=f"order:{order}", principal="checkout", tags=("eu",))
        clock.advance(600)
        worker.run_once()
    clock.advance(timedelta(days=1))
    cleanup(past.storage, ages={"succeeded": 0, "dead": 0})
    clock.advance(timedelta(days=1))
    purge(past.storage, older_than=0, archive=True)
    clock.set(now)
