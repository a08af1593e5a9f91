"""What the jobs that a job waits for mean for it, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sloppyjobs.domain.dependencies import EdgeState, Readiness, readiness
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.dependencies import EdgeRow

NAMED = 3
"""Jobs that a sentence names."""
HOPS = 10
"""How many jobs, each of which waits for the next one, are followed to the one that keeps them all."""
_FIRST = {Status.DEAD: 0, Status.PAUSED: 1, Status.WAITING: 2}
"""What keeps others longest: nothing frees it by itself."""
_FREED_BY = {Status.DEAD: "Retry what is dead, or cancel this job.", Status.PAUSED: "Resume what is paused."}
_ENDS = {"failure": "to fail", "always": "to end"}


def waits_for_jobs(parents: Sequence[EdgeRow], *, any_parent: bool = False) -> str:
    """Which jobs it waits for, what they are, and what an operator can do."""
    waits = _open(parents)
    if not waits:
        return "It waits for other jobs to finish."
    statuses = {edge.status for edge in waits}
    advice = "".join(f" {what}" for status, what in _FREED_BY.items() if status in statuses)
    if len(waits) == 1:
        end = f" {_ENDS[waits[0].needs]}" if waits[0].needs in _ENDS else ""
        return f"It waits for {_named(waits[0])}{end}, which is {waits[0].status}.{advice}"
    each = ", ".join(f"{_named(edge)} is {edge.status}" for edge in waits[:NAMED])
    more = f" and {len(waits) - NAMED} more" if len(waits) > NAMED else ""
    return f"It waits for {'one of ' if any_parent else ''}{len(waits)} jobs: {each}{more}.{advice}"


def decided_meanwhile(parents: Sequence[EdgeRow], *, any_parent: bool) -> str | None:
    """What resuming a paused job does, where the jobs that it waited for have ended; None where some have not."""
    match readiness(Counter(edge.state for edge in parents), any_parent=any_parent):
        case Readiness.READY if parents:
            return "What it waited for has ended as it needs: resuming queues it."
        case Readiness.IMPOSSIBLE if parents:
            failed = next(edge for edge in parents if edge.state is EdgeState.FAILED)
            return f"It can never start, because {_named(failed)} is {failed.status}: resuming cancels it."
    return None


def kept_by(blocker: EdgeRow) -> str:
    """Which job keeps all those that it waits for."""
    advice = f" {_FREED_BY[blocker.status]}" if blocker.status in _FREED_BY else ""
    return f"What it waits for is held up by {_named(blocker)}, which is {blocker.status}.{advice}"


def find_blocker(parents: Sequence[EdgeRow], parents_of: Callable[[str], Sequence[EdgeRow]]) -> EdgeRow | None:
    """The job at the end of the line of those that wait for each other; None where its own parents are that."""
    found, waits = None, _open(parents)
    for _ in range(HOPS):
        if not waits or waits[0].status is not Status.WAITING:
            break
        waits = _open(parents_of(waits[0].job_id))
        found = waits[0] if waits else found
    return found


def _open(parents: Sequence[EdgeRow]) -> list[EdgeRow]:
    waits = [edge for edge in parents if edge.state is EdgeState.OPEN]
    return sorted(waits, key=lambda edge: _FIRST.get(edge.status, len(_FIRST)))


def _named(edge: EdgeRow) -> str:
    return f"{edge.name} ({edge.job_id})" if edge.job_id else "a job in another queue"
