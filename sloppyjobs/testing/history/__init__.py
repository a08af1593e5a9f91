"""A history checker: what clients and handlers wrote down, and the final tables, show whether every promise was kept.

``Log`` is a file that they append to, outside of the database. ``Client`` enqueues, settles, schedules and locks with
an entry before and after; ``record_handlers`` has handlers write when they begin and end. After whatever was done to
processes and databases, ``check`` lists what was broken of these invariants, and ``assert_sound`` fails with the list:

- I1 no acknowledged enqueue is lost; an errored one is there once or not at all
- I2 after faults heal, every job that is due reaches a terminal state
- I3 at most one settlement per attempt is accepted; one end until an operator acts
- I4 attempts are 1, 2, 3 … within the budget, and agree with the counter
- I5 every event is a legal edge; I6 folding a job's events gives its row
- I7 at most one job per occurrence of a schedule, and the set of them is the misfire plan's
- I8 at most one job per idempotency key, and at most one that has not started per business key
- I9 leases of one job never overlap; handlers overlap only after a recorded expiry
- I10 nothing starts before its run time or after a terminal state
- I11 holders of a lock are disjoint; I12 a rolled-back enqueue is never visible
- I13 one alert per rule, cause and window, and each is delivered
- I15 never more jobs run than a limit allows, and each permit is a running job's
- I14 a batch's numbers are those of its jobs, each callback is there once, and it ends
- I17 a step that is done is not run again, and whatever is suspended waits for something that can come
"""

from sloppyjobs.testing.history.checking import INVARIANTS, assert_sound, check, report, violations
from sloppyjobs.testing.history.client import Client, RecordedLocks
from sloppyjobs.testing.history.evidence import Evidence, Tables
from sloppyjobs.testing.history.handlers import record_handlers
from sloppyjobs.testing.history.log import METADATA_KEY, Log
from sloppyjobs.testing.history.steps import recorded_step
from sloppyjobs.testing.history.violations import Finding, Violation

__all__ = [
    "INVARIANTS",
    "METADATA_KEY",
    "Client",
    "Evidence",
    "Finding",
    "Log",
    "RecordedLocks",
    "Tables",
    "Violation",
    "assert_sound",
    "check",
    "record_handlers",
    "recorded_step",
    "report",
    "violations",
]
