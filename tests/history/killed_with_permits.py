"""A worker that is killed inside of its handlers, with permits in its hands: ``killed_with_permits.py URL``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from sloppyjobs import Jobs

if __name__ == "__main__":
    jobs = Jobs(sys.argv[1])
    both = threading.Barrier(2)

    def die(_ctx: Any, _payload: Any) -> None:
        """When two of them run, which is all that the limit allows."""
        both.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    jobs.define("greet", die)
    jobs.create_worker(concurrency=4, lease=1, heartbeat=0.4, maintenance=False).run()
