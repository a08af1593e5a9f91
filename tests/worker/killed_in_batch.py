"""A worker that is killed at one point of a batch's life: ``killed_in_batch.py URL POINT``.

``handler``: in the handler of a member; ``settled``: after the settlement of the last one, before anybody looks whether
the batch is over; ``end``: in the transaction that ends the batch, before its commit.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sloppyjobs import Jobs
from sloppyjobs.storage.batches.batches import Batches


def _die(*_given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _end_and_die(real: Any) -> Any:
    def end(*given: Any) -> None:
        real(*given)
        _die()

    return end


if __name__ == "__main__":
    url, point = sys.argv[1:]
    if point == "settled":
        Batches.end_over = _die  # type: ignore[method-assign]
    elif point == "end":
        Batches._end = _end_and_die(Batches._end)  # type: ignore[method-assign]
    jobs = Jobs(url)

    @jobs.define("work")
    def work(_ctx: Any, payload: Any) -> None:
        """Goes well, unless it is killed."""
        if point == "handler" and payload == 2:
            _die()

    jobs.define("report", lambda _ctx, _payload: None)
    jobs.create_worker(lease=2, heartbeat=0.5, poll_interval=0.1, concurrency=2).run()
