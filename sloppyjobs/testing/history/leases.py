"""Leases: one holder at a time (I9), and nothing starts too early or after its end (I10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sloppyjobs.domain.states import FINISHED, AttemptStatus, Status
from sloppyjobs.storage.ports.records import AttemptRecord
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding

_MAY_RUN_ON = frozenset({AttemptStatus.LOST, AttemptStatus.RELEASED, AttemptStatus.TIMED_OUT, AttemptStatus.CANCELLED})
"""Ends of attempts that do not wait for the handler's own."""

_OUT_OF_TURN = frozenset({"run_now", "resumed", "retried"})
"""Events by which an operator has a job run, whatever its run time was."""


def holders_do_not_overlap(evidence: Evidence) -> Iterator[Finding]:
    """I9: lease intervals of a job never overlap; its handlers overlap only after a recorded expiry."""
    for job_id, attempts in evidence.tables.attempts.items():
        for before, after in pairwise(attempts):
            if before.finished_at is None or before.finished_at > after.started_at + evidence.clock_skew:
                yield Finding(
                    job_id,
                    f"attempt {after.attempt_number} began at {after.started_at}, and attempt {before.attempt_number} "
                    f"ended at {before.finished_at}",
                )
    for job_id, written in evidence.handlers.items():
        if job_id in evidence.tables.jobs:
            yield from _handlers(job_id, written, evidence.tables.attempts.get(job_id, ()))


def _handlers(
    job_id: str, written: Sequence[entries.Started | entries.Ended], attempts: Sequence[AttemptRecord]
) -> Iterator[Finding]:
    ends = {one.attempt_number: one.status for one in attempts}
    begun: set[int] = set()
    running: set[int] = set()
    for entry in written:
        if isinstance(entry, entries.Ended):
            running.discard(entry.attempt)
            continue
        if entry.attempt in begun:
            yield Finding(job_id, f"attempt {entry.attempt} was given to two handlers")
        for other in sorted(running - {entry.attempt}):
            if ends.get(other) not in _MAY_RUN_ON:
                yield Finding(
                    job_id,
                    f"the handler of attempt {entry.attempt} began before that of attempt {other} had ended, "
                    f"which is recorded as {ends.get(other, 'nothing')}",
                )
        begun.add(entry.attempt)
        running.add(entry.attempt)


def nothing_starts_early_or_late(evidence: Evidence) -> Iterator[Finding]:
    """I10: nothing starts before its run time, before it was enqueued, or after a terminal state."""
    yield from _before_their_time(evidence)
    yield from _before_they_were_asked_for(evidence)
    for job_id, events in evidence.tables.events.items():
        finished = None
        for event in events:
            if event.from_status == Status.DEAD and event.to_status == Status.QUEUED:
                finished = None
            elif event.to_status == Status.PROCESSING and finished is not None:
                yield Finding(job_id, f"attempt {event.attempt_number} started, and the job was {finished} already")
            elif event.to_status in FINISHED:
                finished = event.to_status


def _before_their_time(evidence: Evidence) -> Iterator[Finding]:
    tables, skew = evidence.tables, evidence.clock_skew
    for job in tables.jobs.values():
        attempts = tables.attempts.get(job.id)
        # Only then is the row's run time that of its last attempt.
        if attempts and job.status in (Status.PROCESSING, Status.SUCCEEDED, Status.DEAD):
            last = attempts[-1]
            if last.started_at + skew < job.run_at:
                yield Finding(job.id, f"attempt {last.attempt_number} began at {last.started_at}, due at {job.run_at}")
    for entry in evidence.of_kind(entries.Enqueued):
        attempts = tables.attempts.get(entry.job_id)
        if entry.not_before is None or not attempts or attempts[0].started_at + skew >= entry.not_before:
            continue
        if not any(event.event_type in _OUT_OF_TURN for event in tables.events.get(entry.job_id, ())):
            yield Finding(entry.job_id, f"attempt 1 began at {attempts[0].started_at}, asked for at {entry.not_before}")


def _before_they_were_asked_for(evidence: Evidence) -> Iterator[Finding]:
    tokens = {ids[0]: token for token, ids in evidence.jobs_by_token.items()}
    asked: set[str] = set()
    early: set[str] = set()
    for entry in evidence.entries:
        if isinstance(entry, entries.Enqueuing):
            asked.add(entry.token)
        elif isinstance(entry, entries.Started):
            token = tokens.get(entry.job_id)
            if token is not None and token not in asked and entry.job_id not in early:
                early.add(entry.job_id)
                yield Finding(entry.job_id, f"attempt {entry.attempt} started before the job was enqueued")
