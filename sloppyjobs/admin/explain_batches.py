"""What a job's batch has to do with it, in a sentence."""

from __future__ import annotations

from sloppyjobs.domain.batches import BatchStatus
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.storage.ports.batches import BatchFound


def of_batch(job: Job, batch: BatchFound) -> str:
    """Which batch the job belongs to, and what the end of that batch waits for."""
    row, tally = batch.row, batch.counts.tally
    which = f"the batch {row.name!r} ({row.id})"
    if row.status not in (BatchStatus.OPEN, BatchStatus.RUNNING):
        ended = {BatchStatus.SUCCEEDED: "has succeeded", BatchStatus.CANCELLED: "was cancelled"}
        return f"It belongs to {which}, which {ended.get(row.status, 'has failed')}."
    ends = "ends when all its jobs have ended"
    if row.status is BatchStatus.OPEN:
        ends = "takes more jobs until it is sealed, and ends when all of them have ended"
    left = f"{tally.outstanding:,} of {tally.total:,} have not"
    if job.status not in FINISHED:
        others = "this one" if tally.outstanding == 1 else "this one among them"
        return f"It belongs to {which}. The batch {ends}: {left}, {others}."
    counted = " as dead" if job.status is Status.DEAD else ""
    return f"It belongs to {which}, where it is counted{counted}. The batch {ends}: {left}."
