"""A worker that is killed when it has decided to tell, and has not told: ``alerts_killed.py URL [broken]``.

``broken``: it writes the alert and its delivery in two transactions, and is killed between them.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sloppyjobs import Jobs
from sloppyjobs.storage.admin.alerts import Alerts
from sloppyjobs.storage.ports.alerts import AlertRecord


def die(*_given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_two_steps(self: Alerts, alert: AlertRecord, job: Any, command: Any = None) -> bool:
    """The two steps in transactions of their own."""
    values = {**alert._asdict(), "created_at": self.database.clock.now()}
    self.database.write(lambda c: self._inserted(c, self.tables.alerts, values))
    die()
    return True


if __name__ == "__main__":
    if "broken" in sys.argv:
        Alerts.raise_alert = in_two_steps  # type: ignore[method-assign]
    jobs = Jobs(sys.argv[1])
    # It dies as soon as it delivers.
    jobs.declare_alert("dead", on="dead", deliver=die)
    jobs.create_worker(concurrency=1, lease=2, heartbeat=0.5, poll_interval=0.1).run()
