"""Steps, sleeps and signals (I17): what is done is not done again, and nothing sleeps for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.domain.steps import StepKind, StepState
from sloppyjobs.storage.ports.records import JobRecord, StepRecord
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence, Tables
from sloppyjobs.testing.history.log import Log
from sloppyjobs.testing.history.violations import Finding

R = TypeVar("R")

_SUSPENDED = (WaitingFor.SLEEP, WaitingFor.SIGNAL)
_OVERSLEPT = timedelta(seconds=30)


def recorded_step(log: Log, ctx: Any, name: str, function: Callable[..., R], *arguments: Any) -> R:
    """As ``ctx.step`` of a handler that is a function; written down when the function runs, and when it is kept."""

    def run(*given: Any) -> R:
        log.step_ran(ctx.job_id, ctx.attempt, name)
        return function(*given)

    value: R = ctx.step(name, run, *arguments)
    log.step_kept(ctx.job_id, ctx.attempt, name)
    return value


def is_suspended(job: JobRecord) -> bool:
    """Whether the job's handler sleeps, or waits for a signal."""
    return job.status == Status.WAITING and job.waiting_for in _SUSPENDED


def sleeps_on(job: JobRecord, tables: Tables, now: Any) -> bool:
    """Whether a suspended job need not go on yet: its time has not come, or nobody has sent its signal."""
    waits = [row for row in tables.steps.get(job.id, ()) if row.state == StepState.WAITING]
    return is_suspended(job) and bool(waits) and all(row.wake_at is None or row.wake_at > now for row in waits)


def steps_are_done_once(evidence: Evidence) -> Iterator[Finding]:
    """I17: a step that is done is not run again, and whatever is suspended waits for something that can come."""
    yield from _runs(evidence)
    for job in evidence.tables.jobs.values():
        rows = evidence.tables.steps.get(job.id, ())
        yield from _rows(job, rows, evidence)
        if is_suspended(job):
            yield from _waits(job, rows, evidence)


def _runs(evidence: Evidence) -> Iterator[Finding]:
    """By what handlers wrote down."""
    kept: dict[tuple[str, str], int] = {}
    for entry in evidence.of_kind(entries.StepKept):
        key = entry.job_id, entry.name
        kept[key] = min(entry.attempt, kept.get(key, entry.attempt))
    ran = Counter((entry.job_id, entry.name, entry.attempt) for entry in evidence.of_kind(entries.StepRan))
    for (job_id, name, attempt), number in ran.items():
        if number > 1:
            yield Finding(job_id, f"step {name!r} ran {number} times in attempt {attempt}")
        first = kept.get((job_id, name))
        # An older attempt that goes on after its lease was lost may still run it; what it does is not kept.
        if first is not None and attempt > first:
            yield Finding(job_id, f"step {name!r} was done in attempt {first}, and ran again in attempt {attempt}")
    for job_id, name in kept:
        rows = evidence.tables.steps.get(job_id, ())
        done = any(row.kind == StepKind.STEP and row.name == name and row.state == StepState.DONE for row in rows)
        if job_id in evidence.tables.jobs and not done:
            yield Finding(job_id, f"step {name!r} was acknowledged, and has no row")


def _rows(job: JobRecord, rows: Any, evidence: Evidence) -> Iterator[Finding]:
    """A step is kept by an attempt that is held."""
    attempts = {one.attempt_number: one for one in evidence.tables.attempts.get(job.id, ())}
    for row in rows:
        attempt = attempts.get(row.attempt_number)
        if row.kind != StepKind.STEP or row.finished_at is None:
            continue
        if attempt is None:
            yield Finding(job.id, f"step {row.name!r} was kept by attempt {row.attempt_number}, which there is not")
        elif attempt.finished_at is not None and row.finished_at > attempt.finished_at + evidence.clock_skew:
            yield Finding(job.id, f"step {row.name!r} was kept by attempt {row.attempt_number} after its end")


def _waits(job: JobRecord, rows: Any, evidence: Evidence) -> Iterator[Finding]:
    waits: list[StepRecord] = [row for row in rows if row.state == StepState.WAITING]
    ready = [row.name for row in rows if row.state == StepState.READY]
    if not waits:
        yield Finding(job.id, f"it is waiting for a {job.waiting_for}, and has no row of one")
    if ready:
        yield Finding(job.id, f"it is waiting, and {ready} are ready")
    for row in waits:
        late = evidence.now is not None and row.wake_at is not None
        if late and row.wake_at + _OVERSLEPT + evidence.clock_skew < evidence.now:  # type: ignore[operator]
            yield Finding(job.id, f"{row.kind} {row.name!r} should have ended at {row.wake_at}")
