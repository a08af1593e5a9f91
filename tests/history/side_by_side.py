"""Jobs under a limit that would all run at once if they might."""

from __future__ import annotations

import threading
from typing import Any

from sloppyjobs import Jobs

AT_ONCE = 4


def run_side_by_side(jobs: Jobs, concurrency: int) -> None:
    """Handlers that wait for each other, as many as run at once, for a moment only."""
    together = threading.Barrier(AT_ONCE)

    def meet(_ctx: Any, _payload: Any) -> None:
        try:
            together.wait(0.5)
        except threading.BrokenBarrierError:
            return

    jobs.define("meet", meet)
    jobs.limit("api", concurrency=concurrency)
    made = jobs.enqueue_many([("meet", None, {"resource": "api"})] * AT_ONCE)
    worker = jobs.create_worker(concurrency=AT_ONCE, maintenance=False)
    worker.start()
    try:
        for job in made:
            jobs.wait(job.id, timeout=60)
    finally:
        worker.stop()
