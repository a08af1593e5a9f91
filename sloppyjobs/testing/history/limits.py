"""Limits: never more run than allowed, each permit is a running job's, and nobody waits beside a free one (I15)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from sloppyjobs.domain.limits import NO_PARTITION, Partition
from sloppyjobs.domain.states import AttemptStatus, Status, WaitingFor
from sloppyjobs.storage.ports.records import JobRecord, LimitRecord
from sloppyjobs.testing.history import entries
from sloppyjobs.testing.history.evidence import Evidence
from sloppyjobs.testing.history.violations import Finding

_ENDS_WITH_ITS_HANDLER = frozenset({AttemptStatus.SUCCEEDED, AttemptStatus.FAILED, AttemptStatus.SNOOZED})
"""Ends of attempts whose permits come back after their handlers have returned, and not before."""


def permits_are_held_by_those_who_run(evidence: Evidence) -> Iterator[Finding]:
    """I15: never more jobs run than a limit allows, each permit is a running job's, and nobody waits beside a free one.

    Of limits that were changed during the run it is not known what they allowed when.
    """
    tables = evidence.tables
    limits = {limit.name: limit for limit in tables.limits if limit.vanished_at is None}
    held = Counter((permit.resource, permit.partition_key) for permit in tables.permits)
    for partition, number in sorted(held.items()):
        limit = limits.get(partition[0])
        if _is_fixed(limit) and number > _most(limit):
            yield Finding(_name(partition), f"{number} permits are held, and the limit is {_most(limit)}")
    for permit in tables.permits:
        job = tables.jobs.get(permit.job_id)
        if job is None or job.status != Status.PROCESSING:
            status = "gone" if job is None else job.status
            yield Finding(permit.job_id, f"it holds a permit of {permit.resource}, and it is {status}")
    yield from _waiting(evidence, limits, held)
    yield from _running(evidence, limits)


def _waiting(evidence: Evidence, limits: Mapping[str, LimitRecord], held: Counter[Partition]) -> Iterator[Finding]:
    tables = evidence.tables
    lined = {one.job_id for one in tables.parked if not one.released}
    for job in tables.jobs.values():
        if job.status != Status.WAITING or job.waiting_for != WaitingFor.PERMIT:
            continue
        partition = _partition(job)
        limit = limits.get(partition[0])
        if job.id not in lined:
            yield Finding(job.id, f"it waits for a permit of {partition[0]}, and stands in no line")
        elif evidence.now is not None and (limit is None or _has_room(limit, held[partition])):
            yield Finding(job.id, f"it waits for a permit of {_name(partition)}, and one is free")


def _has_room(limit: LimitRecord, held: int) -> bool:
    return limit.rate is None and (limit.concurrency is None or held < limit.concurrency)


def _running(evidence: Evidence, limits: Mapping[str, LimitRecord]) -> Iterator[Finding]:
    """By the order in which handlers wrote down that they began and ended."""
    tables = evidence.tables
    ends = {
        (job_id, one.attempt_number): one.status for job_id, attempts in tables.attempts.items() for one in attempts
    }
    running: dict[Partition, set[tuple[str, int]]] = defaultdict(set)
    told: set[Partition] = set()
    for entry in evidence.entries:
        if not isinstance(entry, entries.Started | entries.Ended):
            continue
        job, fence = tables.jobs.get(entry.job_id), (entry.job_id, entry.attempt)
        limit = None if job is None or job.resource is None else limits.get(job.resource)
        if job is None or not _is_fixed(limit) or ends.get(fence) not in _ENDS_WITH_ITS_HANDLER:
            continue
        partition = _partition(job)
        if isinstance(entry, entries.Ended):
            running[partition].discard(fence)
            continue
        running[partition].add(fence)
        if len(running[partition]) > _most(limit) and partition not in told:
            told.add(partition)
            ran = ", ".join(sorted(job_id for job_id, _ in running[partition]))
            yield Finding(_name(partition), f"{ran} ran at once, and the limit is {_most(limit)}")


def _is_fixed(limit: LimitRecord | None) -> bool:
    return limit is not None and limit.concurrency is not None and limit.created_at == limit.updated_at


def _most(limit: LimitRecord | None) -> int:
    assert limit is not None
    assert limit.concurrency is not None
    return limit.concurrency


def _partition(job: JobRecord) -> Partition:
    return job.resource or "", job.partition_key or NO_PARTITION


def _name(partition: Partition) -> str:
    resource, part = partition
    return resource if part == NO_PARTITION else f"{resource}, {part}"
