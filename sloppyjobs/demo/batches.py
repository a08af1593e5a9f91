"""Batches of the shop: one that went well, one with dead jobs, one that is running."""

from __future__ import annotations

from typing import Any

from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock

Payload = dict[str, Any]


def fill_batches(past: Jobs, clock: FakeClock) -> None:
    """Resize the pictures of two catalogues under a clock of hours ago; one has pictures that nobody can read."""
    begin = clock.now()
    worker = past.create_worker(recurring=False, maintenance=False)
    for name, broken in (("spring catalogue", 0), ("summer catalogue", 3)):
        mail = {"to": "studio@shop.example", "subject": f"{name} is ready"}
        failed = {"to": "studio@shop.example", "subject": f"{name} is not complete"}
        with past.batch(
            name,
            on_success=("send-email", mail),
            on_failure=("send-email", failed),
            metadata={"requested_by": "studio", "api_key": "demo-catalogue-key"},
        ) as batch:
            batch.enqueue_many(
                [("resize-image", _picture(number, broken), {"max_attempts": 1}) for number in range(40)]
            )
        worker.run_once()
        clock.advance(60)
        worker.run_once()
    clock.set(begin)


def start_batch(jobs: Jobs) -> None:
    """A batch that waits for its workers."""
    mail = {"to": "studio@shop.example", "subject": "autumn catalogue is ready"}
    with jobs.batch("autumn catalogue", on_success=("send-email", mail), success_rate=0.95) as batch:
        batch.enqueue_many([("resize-image", _picture(number, 0)) for number in range(60)])


def _picture(number: int, broken: int) -> Payload:
    payload: Payload = {"path": f"catalogue/{number:03}.jpg", "widths": [320, 640]}
    if number < broken:
        payload["fails"] = "format"
    return payload
