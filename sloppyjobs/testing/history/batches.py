"""Batches: their numbers are those of their jobs, each callback is there once and when due, and they end (I14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sloppyjobs.domain.batches import ENDED, BatchStatus, decode_callbacks
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.ports.records import BatchRecord, JobRecord
from sloppyjobs.testing.history.evidence import Evidence, Tables, source_of
from sloppyjobs.testing.history.violations import Finding


def is_over(batch: BatchRecord) -> bool:
    """Whether the batch should have ended."""
    return batch.status == BatchStatus.RUNNING and batch.action is None and not batch.outstanding_ids


def batches_count_their_jobs(evidence: Evidence) -> Iterator[Finding]:
    """I14: a batch's numbers are those of its jobs, its callbacks are written once and when due, and it ends."""
    tables = evidence.tables
    members: dict[str, list[JobRecord]] = {batch.id: [] for batch in tables.batches}
    for job in tables.known():
        if job.batch_id in members:
            members[job.batch_id].append(job)
    for batch in tables.batches:
        own = members[batch.id]
        # Of what was purged nothing is known.
        if len(own) == batch.total:
            yield from _numbers(batch, own, tables)
        elif len(own) > batch.total:
            yield Finding(batch.id, f"has {len(own)} jobs, and {batch.total} were counted")
        yield from _rows(batch, own)
        yield from _end(batch, evidence)
        yield from _callbacks(batch, tables)


def _numbers(batch: BatchRecord, members: Sequence[JobRecord], tables: Tables) -> Iterator[Finding]:
    ends = Counter(_ended_as(job, tables) for job in members)
    for name in ("succeeded", "dead", "cancelled"):
        if ends[name] != getattr(batch, name):
            yield Finding(batch.id, f"{getattr(batch, name)} {name} were counted, and it is {ends[name]}")


def _ended_as(job: JobRecord, tables: Tables) -> str | None:
    """How the job ended; a deleted one, how it had ended before."""
    if job.status not in FINISHED:
        return None
    if job.status != Status.DELETED:
        return job.status
    deletions = (event for event in reversed(tables.events.get(job.id, ())) if event.to_status == Status.DELETED)
    came_from = next((event.from_status for event in deletions), tables.deleted_from.get(job.id))
    return came_from if came_from in FINISHED else Status.CANCELLED.value


def _rows(batch: BatchRecord, members: Sequence[JobRecord]) -> Iterator[Finding]:
    live = {job.id for job in members if job.status not in FINISHED}
    dead = {job.id for job in members if job.status == Status.DEAD}
    for what, rows, jobs in (("outstanding", batch.outstanding_ids, live), ("dead", batch.dead_ids, dead)):
        for job_id in sorted(set(rows) ^ jobs):
            seen = "has" if job_id in rows else "has not"
            yield Finding(batch.id, f"job {job_id} {seen} a row as {what}, and it is otherwise")


def _end(batch: BatchRecord, evidence: Evidence) -> Iterator[Finding]:
    if batch.status in ENDED and batch.outstanding_ids:
        yield Finding(batch.id, f"is {batch.status}, and {len(batch.outstanding_ids)} jobs have not ended")
    if evidence.now is not None and is_over(batch):
        yield Finding(batch.id, "is sealed, and none of its jobs is left, but it has not ended")
    if batch.status in ENDED and batch.sealed_at is None:
        yield Finding(batch.id, f"is {batch.status}, and was not sealed")


def _callbacks(batch: BatchRecord, tables: Tables) -> Iterator[Finding]:
    callbacks = decode_callbacks(batch.callbacks)
    own = {one.id for one in callbacks.values()}
    for kind, callback in callbacks.items():
        called = tables.has(callback.id)
        due = _is_due(batch, kind)
        if called and not due:
            yield Finding(batch.id, f"its callback on_{kind} was called, and is not due")
        if due and not called:
            yield Finding(batch.id, f"its callback on_{kind} is due, and was not called")
        twins = [
            job
            for job in tables.known()
            if (job.correlation_id, job.name, job.payload)
            == (callback.terms.correlation_id, callback.terms.name, callback.payload)
            and job.batch_id is None
        ]
        # Other callbacks of the batch may be like it, and what replaces or restores one is.
        if any(one.id not in own and source_of(one) is None for one in twins):
            yield Finding(batch.id, f"its callback on_{kind} was called {len(twins)} times")


def _is_due(batch: BatchRecord, kind: str) -> bool:
    if kind == "success":
        return batch.succeeded_at is not None
    if kind == "failure":
        return batch.first_status not in (None, BatchStatus.SUCCEEDED.value)
    return batch.first_ended_at is not None
