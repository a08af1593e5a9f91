"""A worker that is killed at one point of a workflow's life: ``killed_in_graph.py URL POINT``.

``handler``: in the handler of a parent; ``decided``: in the transaction that ends a parent, after its edges were
decided and before its children are released; ``released``: after that, before the commit.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sloppyjobs import Jobs
from sloppyjobs.storage.jobs.dependencies import Dependencies


def _die(*_given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _release_and_die(real: Any) -> Any:
    def release(*given: Any) -> Any:
        real(*given)
        _die()

    return release


if __name__ == "__main__":
    url, point = sys.argv[1:]
    if point == "decided":
        Dependencies.release = _die  # type: ignore[assignment]
    elif point == "released":
        Dependencies.release = _release_and_die(Dependencies.release)  # type: ignore[method-assign]
    jobs = Jobs(url)

    @jobs.define("work")
    def work(_ctx: Any, _payload: Any) -> None:
        """Goes well, unless it is killed."""
        if point == "handler":
            _die()

    jobs.create_worker(lease=2, heartbeat=0.5, poll_interval=0.1, concurrency=2).run()
