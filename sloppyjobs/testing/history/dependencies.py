"""Jobs that wait for others: none starts before its dependencies are met, none waits when they are decided (I18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sloppyjobs.domain.dependencies import Dependency, Readiness, Result, edge_state, readiness
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.states import FINISHED, Status, WaitingFor
from sloppyjobs.storage.ports.records import DependencyRecord, JobRecord
from sloppyjobs.testing.history.evidence import Evidence, Tables
from sloppyjobs.testing.history.violations import Finding

_MEETS = {
    "success": {Status.SUCCEEDED},
    "failure": {Status.DEAD, Status.CANCELLED, Status.DELETED},
    "always": FINISHED,
}
_WITHOUT_A_START = frozenset({Status.WAITING, Status.PAUSED, Status.CANCELLED, Status.DELETED})


def dependencies_are_kept(evidence: Evidence) -> Iterator[Finding]:
    """I18: no job starts before its dependencies are met, and none waits when they are decided."""
    tables = evidence.tables
    for child, edges in tables.edges_to.items():
        job = tables.jobs.get(child)
        if job is None:
            continue
        any_parent = bool((job.followups or 0) & Followup.ANY_PARENT)
        if _waits_for_jobs(job):
            found = _readiness(edges, tables, any_parent=any_parent)
            if found is not Readiness.WAITING:
                yield Finding(child, f"waits, and its {len(edges)} dependencies say that it is {found.name.lower()}")
        elif job.attempt_count or job.status not in _WITHOUT_A_START:
            yield from _started_early(evidence, job, edges, any_parent=any_parent)


def held_by_dead(job: JobRecord, tables: Tables) -> bool:
    """Whether the job waits for one that is dead, or for one that does: somebody must retry that first."""
    seen: set[str] = set()
    left = [job.id]
    while left:
        current = tables.jobs.get(left.pop())
        if current is None or current.id in seen:
            continue
        seen.add(current.id)
        if current.status == Status.DEAD:
            return current is not job
        if _waits_for_jobs(current):
            left += [edge.parent_id for edge in tables.edges_to.get(current.id, ())]
    return False


def _started_early(
    evidence: Evidence, job: JobRecord, edges: Sequence[DependencyRecord], *, any_parent: bool
) -> Iterator[Finding]:
    tables = evidence.tables
    left = _released_at(job, tables)
    if left is None or (any_parent and tables.archived):
        # Of parents that were archived the edges are gone, and one of those may have been enough.
        return
    met = [edge for edge in edges if _met_by(edge, left, evidence)]
    if not met if any_parent else len(met) < len(edges):
        open_parent = next(edge.parent_id for edge in edges if edge not in met)
        yield Finding(job.id, f"was let go at {left}, and job {open_parent} had not ended as it needs")


def _released_at(job: JobRecord, tables: Tables) -> datetime | None:
    """When the job was first free to start; None where it never was."""
    for event in tables.events.get(job.id, ()):
        if event.to_status not in _WITHOUT_A_START:
            return event.created_at
    return None


def _met_by(edge: DependencyRecord, moment: datetime, evidence: Evidence) -> bool:
    """Whether the parent had ended by then as the edge needs; one that was purged is believed."""
    tables = evidence.tables
    if not tables.has(edge.parent_id):
        return True
    ends = [
        event
        for event in tables.events.get(edge.parent_id, ())
        if event.to_status in _MEETS[edge.needs] and event.created_at <= moment + evidence.clock_skew
    ]
    if not ends and edge.parent_id not in tables.events:
        return True
    when = _test(edge)
    parent = tables.jobs.get(edge.parent_id)
    return bool(ends) and (when is None or parent is None or when.holds(_result(parent)))


def _readiness(edges: Sequence[DependencyRecord], tables: Tables, *, any_parent: bool) -> Readiness:
    numbers: Counter[int] = Counter()
    for edge in edges:
        parent = tables.jobs.get(edge.parent_id)
        status = None if parent is None else Status(parent.status)
        result = None if parent is None else _result(parent)
        # Once met it stays so, whatever a retry makes of the parent later.
        state = edge.state or edge_state(Dependency(edge.parent_id, edge.needs, _test(edge)), status, result)
        numbers[int(state)] += 1
    return readiness(numbers, any_parent=any_parent)


def _waits_for_jobs(job: JobRecord) -> bool:
    return job.status == Status.WAITING and job.waiting_for in (None, WaitingFor.JOBS)


def _test(edge: DependencyRecord) -> Result | None:
    return None if edge.result_test is None else msgspec.json.decode(edge.result_test, type=Result)


def _result(job: JobRecord) -> Any:
    return None if job.result is None else msgspec.json.decode(job.result)
