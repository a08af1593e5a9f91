"""``check``: every invariant, over the log and the final tables."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.alerts import alerts_are_told_once
from sloppyjobs.testing.history.batches import batches_count_their_jobs, is_over
from sloppyjobs.testing.history.dependencies import dependencies_are_kept
from sloppyjobs.testing.history.enqueues import (
    acknowledged_jobs_are_there,
    keys_are_taken_once,
    rolled_back_jobs_are_not_seen,
)
from sloppyjobs.testing.history.evidence import Evidence, Tables
from sloppyjobs.testing.history.leases import holders_do_not_overlap, nothing_starts_early_or_late
from sloppyjobs.testing.history.limits import permits_are_held_by_those_who_run
from sloppyjobs.testing.history.lives import (
    attempts_are_numbered,
    attempts_are_settled_once,
    events_are_legal_edges,
    events_give_the_row,
    is_unfinished,
    jobs_end,
)
from sloppyjobs.testing.history.locks import lock_holders_are_disjoint
from sloppyjobs.testing.history.log import Log
from sloppyjobs.testing.history.schedules import occurrences_are_as_planned
from sloppyjobs.testing.history.steps import steps_are_done_once
from sloppyjobs.testing.history.violations import Finding, Violation

Find = Callable[[Evidence], Iterator[Finding]]

INVARIANTS: dict[str, Find] = {
    "I1": acknowledged_jobs_are_there,
    "I2": jobs_end,
    "I3": attempts_are_settled_once,
    "I4": attempts_are_numbered,
    "I5": events_are_legal_edges,
    "I6": events_give_the_row,
    "I7": occurrences_are_as_planned,
    "I8": keys_are_taken_once,
    "I9": holders_do_not_overlap,
    "I10": nothing_starts_early_or_late,
    "I11": lock_holders_are_disjoint,
    "I12": rolled_back_jobs_are_not_seen,
    "I13": alerts_are_told_once,
    "I14": batches_count_their_jobs,
    "I15": permits_are_held_by_those_who_run,
    "I17": steps_are_done_once,
    "I18": dependencies_are_kept,
}
"""Each invariant by its number; the first line of its docstring is the promise."""

SHOWN = 10
"""Violations of one invariant that a failed assertion lists."""

_LONGEST_PAUSE = 1.0
_BEFORE_THE_SECOND_READ = 0.2


def check(
    jobs: Jobs, log: Log | None = None, *, within: float | None = None, clock_skew: float = 0.0
) -> list[Violation]:
    """Check every invariant; an empty list where all of them hold.

    Stop producers and workers first, unless they are at rest. With ``within``, every job that is due must end in that
    many seconds from now (I2), so workers go on until then; without it, jobs may be unfinished. ``clock_skew`` is by
    how many seconds the clocks of the database's nodes may differ.
    """
    tables = Tables.of(jobs.storage) if within is None else _when_ended(jobs, within)
    found = violations(_evidence(jobs, log, tables, within, clock_skew))
    if not found:
        return []
    # The tables are read one after the other, and a server may still carry out what a client sent before it was killed.
    # What is broken is so when it is read again.
    time.sleep(_BEFORE_THE_SECOND_READ)
    again = violations(_evidence(jobs, log, Tables.of(jobs.storage), within, clock_skew))
    still = {(one.invariant, one.subject) for one in again}
    return [one for one in found if (one.invariant, one.subject) in still]


def _evidence(jobs: Jobs, log: Log | None, tables: Tables, within: float | None, clock_skew: float) -> Evidence:
    now = None if within is None else jobs.storage.clock.now()
    return Evidence(tables, [] if log is None else log.entries(), now, timedelta(seconds=clock_skew))


def violations(evidence: Evidence, numbers: Iterable[str] = tuple(INVARIANTS)) -> list[Violation]:
    """What breaks these invariants."""
    return [Violation(number, *finding) for number in numbers for finding in INVARIANTS[number](evidence)]


def assert_sound(jobs: Jobs, log: Log | None = None, *, within: float | None = None, clock_skew: float = 0.0) -> None:
    """As ``check``; an ``AssertionError`` lists the violations."""
    __tracebackhide__ = True
    found = check(jobs, log, within=within, clock_skew=clock_skew)
    if found:
        raise AssertionError(report(found, log))


def report(found: Sequence[Violation], log: Log | None = None) -> str:
    """The violations as text: each promise that was broken, and the first few cases of it."""
    lines: list[str] = []
    for number, cases in Counter(one.invariant for one in found).items():
        promise = (INVARIANTS[number].__doc__ or number).splitlines()[0]
        lines.append(f"{promise} Broken {cases} times:" if cases > 1 else f"{promise} Broken once:")
        listed = [one for one in found if one.invariant == number][:SHOWN]
        lines += [f"  {one.subject}: {one.seen}" for one in listed]
        if cases > SHOWN:
            lines.append(f"  … and {cases - SHOWN} more")
    faults = [] if log is None else log.of_kind(entries.Fault)
    if faults:
        lines.append("Faults in this run: " + "; ".join(fault.what for fault in faults))
    return "\n".join(lines)


def _when_ended(jobs: Jobs, seconds: float) -> Tables:
    """The tables when every job that is due has ended, or when the time is over."""
    deadline = time.monotonic() + seconds
    pause = 0.05
    while True:
        tables, now = Tables.of(jobs.storage), jobs.storage.clock.now()
        ended = not any(is_unfinished(job, tables, now) for job in tables.jobs.values())
        ended = ended and not any(map(is_over, tables.batches))
        if ended or time.monotonic() >= deadline:
            return tables
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)
