"""A scheduler that moves the cursor before it inserts the job, and is killed in between: ``killed_between.py URL``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sloppyjobs import Jobs
from sloppyjobs.storage.schedules.firing import ScheduleFiring


def advance_first(self: ScheduleFiring, schedule_id: str, decide: Any) -> None:
    """The two steps in the wrong order, each in a transaction of its own."""
    due = self.database.read(lambda c: self.schedule_where(c, self.tables.recurring.c.id == schedule_id))
    assert due is not None
    firing = decide(due, self.database.clock.now())
    self.database.write(lambda c: self.advance(c, due, firing, self.database.now(c)))
    os.kill(os.getpid(), signal.SIGKILL)
    self.database.write(lambda c: self.insert_occurrences(c, firing.jobs))


if __name__ == "__main__":
    ScheduleFiring.fire = advance_first  # type: ignore[assignment, method-assign]
    jobs = Jobs(sys.argv[1])
    jobs.declare("greet")
    while True:
        jobs.tick_recurring()
