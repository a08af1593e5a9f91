"""Enqueues: what was acknowledged is there (I1), keys are taken once (I8), what was rolled back is not (I12)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sloppyjobs.domain.states import FINISHED
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding


def acknowledged_jobs_are_there(evidence: Evidence) -> Iterator[Finding]:
    """I1: no acknowledged enqueue is lost; an errored one is there once or not at all."""
    tables = evidence.tables
    committed = {entry.job_id for entry in evidence.of_kind(entries.Committed)}
    for entry in evidence.of_kind(entries.Enqueued):
        if (entry.committed or entry.job_id in committed) and not tables.has(entry.job_id):
            yield Finding(entry.job_id, "its enqueue was acknowledged, and it is not in the tables")
    for token, ids in evidence.jobs_by_token.items():
        if len(ids) > 1:
            yield Finding(", ".join(ids), f"one enqueue, {token}, wrote {len(ids)} jobs")
    rolled_back = {entry.job_id for entry in evidence.of_kind(entries.RolledBack)}
    for job_id in evidence.handlers:
        if not tables.has(job_id) and job_id not in rolled_back:
            yield Finding(job_id, "a handler has run it, and it is not in the tables")


def keys_are_taken_once(evidence: Evidence) -> Iterator[Finding]:
    """I8: at most one job per idempotency key, and at most one that has not started per business key."""
    yield from _idempotency_keys(evidence)
    waiting: dict[str, list[str]] = defaultdict(list)
    for job in evidence.tables.jobs.values():
        # One that has started may have given up its key, or not; one that has not is alone in any case.
        if job.business_key is not None and job.attempt_count == 0 and job.status not in FINISHED:
            waiting[job.business_key].append(job.id)
    for key, ids in waiting.items():
        if len(ids) > 1:
            yield Finding(f"business key {key!r}", f"{len(ids)} jobs wait to start: {', '.join(sorted(ids))}")


def _idempotency_keys(evidence: Evidence) -> Iterator[Finding]:
    """In the tables, and in the answers to clients."""
    by_key: dict[str, set[str]] = defaultdict(set)
    for job in evidence.tables.known():
        if job.idempotency_key is not None:
            by_key[job.idempotency_key].add(job.id)
    committed = {entry.job_id for entry in evidence.of_kind(entries.Committed)}
    for entry in evidence.of_kind(entries.Enqueued):
        if entry.idempotency_key is not None and (entry.committed or entry.job_id in committed):
            by_key[entry.idempotency_key].add(entry.job_id)
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Finding(f"key {key!r}", f"{len(ids)} jobs have it: {', '.join(sorted(ids))}")


def rolled_back_jobs_are_not_seen(evidence: Evidence) -> Iterator[Finding]:
    """I12: a rolled-back enqueue is never visible, neither in the tables nor to a handler."""
    existing = {entry.job_id for entry in evidence.of_kind(entries.Enqueued) if entry.existing}
    for entry in evidence.of_kind(entries.RolledBack):
        if entry.job_id in existing:
            continue  # another transaction had written it
        if evidence.tables.has(entry.job_id):
            yield Finding(entry.job_id, "its transaction was rolled back, and it is in the tables")
        if entry.job_id in evidence.handlers:
            yield Finding(entry.job_id, "its transaction was rolled back, and a handler has run it")
