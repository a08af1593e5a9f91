"""Schedules: one job per occurrence, and the set of them is the misfire plan's (I7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sloppyjobs import errors
from sloppyjobs.schedules.timetable import Schedule, after, plan
from sloppyjobs.storage.ports.records import JobRecord
from sloppyjobs.storage.ports.schedules import PassedOver, StoredSchedule, passed_over, timetable
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding

REMEMBERED = 20
"""Times of which a schedule remembers what it has passed over; what is older than these is not checked."""
POLICIES = frozenset({"run-once", "catch-up-limited", "ignore"})


def occurrences_are_as_planned(evidence: Evidence) -> Iterator[Finding]:
    """I7: at most one job per occurrence; each occurrence that came due has fired or was passed over by its policy."""
    fired = _fired(evidence)
    for schedule_id, by_instant in fired.items():
        for instant, ids in by_instant.items():
            if len(ids) > 1:
                yield Finding(schedule_id, f"the occurrence of {instant} has {len(ids)} jobs: {', '.join(ids)}")
    registered = _registered(evidence)
    stored = {schedule.id: schedule for schedule in evidence.tables.schedules}
    for schedule in stored.values():
        first = registered.get(schedule.id)
        if first is not None and schedule.next_run_at is not None and schedule.last_error is None:
            yield from _compared(schedule, first, set(fired.get(schedule.id, {})))
    for schedule_id, first in registered.items():
        # One that runs once is gone with its only job; any other one was deleted.
        if schedule_id not in stored and schedule_id not in fired and "kind='once'" in first.timetable:
            yield Finding(first.name, f"the schedule is gone, and its occurrence of {first.next_run_at} has no job")


def _compared(schedule: StoredSchedule, registered: entries.Scheduled, fired: set[datetime]) -> Iterator[Finding]:
    try:
        times = timetable(schedule)
    except errors.JobsError:
        return  # a damaged row, which does not fire
    if str(times) != registered.timetable:
        return  # somebody has changed it who writes no log
    first = registered.next_run_at
    passed = sorted(passed_over(schedule.missed), key=lambda one: one.first)
    if len(passed) >= REMEMBERED:
        first = passed[0].first
    assert schedule.next_run_at is not None
    due = list(_occurrences(times, first, schedule.next_run_at))
    for instant in due:
        if instant not in fired and not any(one.first <= instant <= one.last for one in passed):
            yield Finding(schedule.name, f"the occurrence of {instant} has no job, and was not passed over")
    for instant in sorted(fired - set(due)):
        if instant >= first:
            yield Finding(schedule.name, f"a job is there for {instant}, which is no occurrence that came due")
    for one in passed:
        yield from _policy(schedule.name, times, one, fired, first)


def _policy(name: str, times: Schedule, passed: PassedOver, fired: set[datetime], first: datetime) -> Iterator[Finding]:
    if passed.reason not in POLICIES or passed.first < first:
        return  # it was paused or not declared then, or it was another schedule before
    planned = plan(times, passed.first, passed.decided_at)
    if planned.last_skipped != passed.last or planned.skipped != passed.number:
        yield Finding(
            name,
            f"{passed.number} occurrences up to {passed.last} were passed over, and {passed.reason} passes over "
            f"{planned.skipped} up to {planned.last_skipped}",
        )
    for instant in planned.fire:
        if instant not in fired:
            yield Finding(name, f"{passed.reason} fires the occurrence of {instant}, and it has no job")
    for instant in sorted(fired):
        if passed.first <= instant <= passed.last:
            yield Finding(name, f"{passed.reason} passes over the occurrence of {instant}, and it has a job")


def _occurrences(times: Schedule, first: datetime, end: datetime) -> Iterator[datetime]:
    """From the first cursor on, up to the one that comes next."""
    instant: datetime | None = first
    while instant is not None and instant < end:
        yield instant
        instant = after(times, instant, anchor=first)


def _fired(evidence: Evidence) -> Mapping[str, Mapping[datetime, Sequence[str]]]:
    """The jobs of each occurrence; those that somebody triggered by hand have no key and are none."""
    found: dict[str, dict[datetime, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job in evidence.tables.known():
        if _is_occurrence(job):
            found[str(job.schedule_id)][job.occurrence_at].append(job.id)  # type: ignore[index]
    return found


def _is_occurrence(job: JobRecord) -> bool:
    return job.schedule_id is not None and job.occurrence_at is not None and job.idempotency_key is not None


def _registered(evidence: Evidence) -> Mapping[str, entries.Scheduled]:
    """The first registration of each schedule with its last timetable."""
    found: dict[str, entries.Scheduled] = {}
    for entry in evidence.of_kind(entries.Scheduled):
        known = found.get(entry.schedule_id)
        if known is None or known.timetable != entry.timetable:
            found[entry.schedule_id] = entry
    return found
