"""The life of a job: it ends (I2), once (I3), in numbered attempts (I4), by legal edges (I5) that give its row (I6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from sloppyjobs.domain.states import FINISHED, INITIAL, AttemptStatus, Status, allowed
from sloppyjobs.storage.ports.records import EventRecord, JobRecord
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.dependencies import held_by_dead
from sloppyjobs.testing.history.evidence import Evidence, Fence, Tables
from sloppyjobs.testing.history.steps import sleeps_on
from sloppyjobs.testing.history.violations import Finding

_ENDS = frozenset({Status.SUCCEEDED, Status.DEAD, Status.CANCELLED})
_NOT_BY_ITS_WORKER = frozenset({AttemptStatus.RUNNING, AttemptStatus.LOST})


def is_unfinished(job: JobRecord, tables: Tables, now: datetime) -> bool:
    """Whether the job should have ended: it is due, and nobody holds it back."""
    held_back = job.status == Status.PAUSED or job.queue in tables.paused_queues
    later = job.status in (Status.SCHEDULED, Status.RETRYING) and job.run_at > now
    held_back = held_back or sleeps_on(job, tables, now) or held_by_dead(job, tables)
    return job.status not in FINISHED and not held_back and not later


def jobs_end(evidence: Evidence) -> Iterator[Finding]:
    """I2: after faults heal, every job that is due reaches a terminal state."""
    if evidence.now is None:
        return
    for job in evidence.tables.jobs.values():
        if is_unfinished(job, evidence.tables, evidence.now):
            held = "" if job.locked_by is None else f", held by {job.locked_by} until {job.locked_until}"
            yield Finding(job.id, f"still {job.status} after attempt {job.attempt_count}{held}")


def attempts_are_settled_once(evidence: Evidence) -> Iterator[Finding]:
    """I3: at most one accepted settlement per attempt, its handler's own; one end until an operator acts."""
    not_returned: set[Fence] = {(entry.job_id, entry.attempt) for entry in evidence.of_kind(entries.Started)}
    not_returned -= {
        (entry.job_id, entry.attempt) for entry in evidence.of_kind(entries.Ended) if entry.how == "returned"
    }
    accepted = Counter((entry.job_id, entry.attempt) for entry in evidence.of_kind(entries.Settled) if entry.accepted)
    for (job_id, attempt), number in accepted.items():
        if number > 1:
            yield Finding(job_id, f"{number} settlements of attempt {attempt} were accepted")
    for job_id, events in evidence.tables.events.items():
        yield from _settlements(job_id, events)
        yield from _ends(job_id, events)
    for attempts in evidence.tables.attempts.values():
        for one in attempts:
            if (one.job_id, one.attempt_number) in accepted and one.status in _NOT_BY_ITS_WORKER:
                yield Finding(
                    one.job_id, f"a settlement of attempt {one.attempt_number} was accepted, and it is {one.status}"
                )
            if one.status == AttemptStatus.SUCCEEDED and (one.job_id, one.attempt_number) in not_returned:
                yield Finding(one.job_id, f"attempt {one.attempt_number} succeeded, and its handler has not returned")


def _settlements(job_id: str, events: Sequence[EventRecord]) -> Iterator[Finding]:
    settled = Counter(event.attempt_number for event in events if event.from_status == Status.PROCESSING)
    for attempt, number in settled.items():
        if number > 1:
            yield Finding(job_id, f"attempt {attempt} was settled {number} times")


def _ends(job_id: str, events: Sequence[EventRecord]) -> Iterator[Finding]:
    ended: str | None = None
    for event in events:
        if event.from_status == Status.DEAD and event.to_status == Status.QUEUED:
            ended = None  # an operator has retried it
        elif event.to_status in _ENDS:
            if ended is not None:
                yield Finding(job_id, f"it was {ended}, and became {event.to_status} without an operator")
            ended = event.to_status


def attempts_are_numbered(evidence: Evidence) -> Iterator[Finding]:
    """I4: attempts are 1, 2, 3 … within the budget; rows, claims and handlers agree with the counter."""
    tables = evidence.tables
    for job in tables.jobs.values():
        if not tables.events.get(job.id):
            continue
        wanted = list(range(1, job.attempt_count + 1))
        rows = [attempt.attempt_number for attempt in tables.attempts.get(job.id, ())]
        claims = [event.attempt_number for event in tables.events[job.id] if event.to_status == Status.PROCESSING]
        if rows != wanted:
            yield Finding(job.id, f"{job.attempt_count} attempts are counted, and the rows are {rows}")
        if claims != wanted:
            yield Finding(job.id, f"{job.attempt_count} attempts are counted, and the claims are {claims}")
        if job.attempt_count > job.max_attempts:
            yield Finding(job.id, f"{job.attempt_count} attempts, and at most {job.max_attempts} were allowed")
        unknown = {entry.attempt for entry in evidence.handlers.get(job.id, ())} - set(wanted)
        if unknown:
            yield Finding(job.id, f"handlers have run attempts {sorted(unknown)}, which are not counted")


def events_are_legal_edges(evidence: Evidence) -> Iterator[Finding]:
    """I5: every event is an edge of the state machine, and begins where the one before ended."""
    for job_id, events in evidence.tables.events.items():
        first = events[0]
        if first.from_status is not None or first.to_status not in INITIAL:
            yield Finding(job_id, f"its first event is {_edge(first)}")
        for before, after in pairwise(events):
            if before.to_status != after.from_status:
                yield Finding(job_id, f"{_edge(after)} follows {_edge(before)}")
            elif not allowed(Status(before.to_status), Status(after.to_status)):
                yield Finding(job_id, f"{_edge(after)} is not an edge of the state machine")


def events_give_the_row(evidence: Evidence) -> Iterator[Finding]:
    """I6: folding a job's events gives its row, and its attempts and lease are what its status says."""
    tables = evidence.tables
    for job in tables.jobs.values():
        events = tables.events.get(job.id)
        if events:
            yield from _folded(job, events)
            yield from _at_rest(job, evidence)
    for job_id in tables.events:
        if not tables.has(job_id):
            yield Finding(job_id, "it has events, and no row")


def _folded(job: JobRecord, events: Sequence[EventRecord]) -> Iterator[Finding]:
    last = events[-1]
    if job.status != last.to_status:
        yield Finding(job.id, f"its row is {job.status}, and its last event is {_edge(last)}")
    if job.updated_at != last.created_at:
        yield Finding(job.id, f"its row was updated at {job.updated_at}, and its last event is of {last.created_at}")


def _at_rest(job: JobRecord, evidence: Evidence) -> Iterator[Finding]:
    running = job.status == Status.PROCESSING
    attempts = evidence.tables.attempts.get(job.id, ())
    unsettled = [one.attempt_number for one in attempts if one.status == AttemptStatus.RUNNING]
    if unsettled != ([job.attempt_count] if running else []):
        yield Finding(job.id, f"it is {job.status}, and attempts {unsettled} are running")
    if (job.locked_by is not None, job.locked_until is not None) != (running, running):
        yield Finding(job.id, f"it is {job.status}, held by {job.locked_by} until {job.locked_until}")
    if (job.finished_at is not None) != (job.status in FINISHED):
        yield Finding(job.id, f"it is {job.status}, finished at {job.finished_at}")


def _edge(event: EventRecord) -> str:
    return f"{event.from_status or 'nothing'} → {event.to_status} ({event.event_type})"
