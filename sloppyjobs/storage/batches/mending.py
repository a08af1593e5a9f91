"""Rows of members that do not agree with their jobs, as after a change by hand: made to agree, and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import add

from sqlalchemy import Connection, select

from sloppyjobs.domain.batches import MemberState, Tally
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.domain.stored_words import known_or
from sloppyjobs.storage.batches.members import Counts, count_members, insert_members, remove_members
from sloppyjobs.storage.database import Database

_AS_ENDED = {Status.SUCCEEDED: Tally(succeeded=1), Status.DEAD: Tally(dead=1)}


def mend(database: Database, connection: Connection, batch_id: str, job_ids: Sequence[str]) -> int:
    """Remove the rows of those of these outstanding members that have ended, or are gone; how many there were."""
    if not job_ids:
        return 0
    jobs = database.tables.jobs.c
    found = {
        row.id: row
        for row in connection.execute(select(jobs.id, jobs.status, jobs.queue).where(jobs.id.in_(list(job_ids))))
    }
    counts: Counts = defaultdict(Tally)
    mended = 0
    for job_id in sorted(job_ids):
        row = found.get(job_id)
        status = None if row is None else known_or(Status.FAILED, row.status)
        if status is not None and status not in FINISHED:
            continue
        if not remove_members(database, connection, [(batch_id, int(MemberState.OUTSTANDING), job_id)]):
            continue
        mended += 1
        if status is Status.DEAD:
            insert_members(database, connection, [(batch_id, int(MemberState.DEAD), job_id)])
        queue = "" if row is None else row.queue
        ended = Tally(cancelled=1) if status is None else _AS_ENDED.get(status, Tally(cancelled=1))
        counts[batch_id, queue] = Tally(*map(add, counts[batch_id, queue], ended))
    if counts:
        count_members(database, connection, counts, database.now(connection))
    return mended
