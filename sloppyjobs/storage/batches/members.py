"""The rows of batches' members, and the numbers of batches: written with the jobs, and by the step that ends them.

A member has a row while it has not ended, or is dead; so no number must be trusted to know that none is left. The
numbers are in shards: workers that settle members of one batch do not wait for each other.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import add
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    SmallInteger,
    Table,
    Text,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain.batches import BatchStatus, Ending, MemberState, Tally, ending
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import NewJob, Terms, terms_by
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.jobs.settle import STATS_SHARDS
from sloppyjobs.storage.schema.instants import Instant

SHARDS = 8
"""Shards for processes that add members or end them by commands, besides those of workers that settle."""
_ROW: Mapping[str, TypeEngine[Any]] = {"batch_id": Text(), "state": SmallInteger(), "job_id": Text()}
_COUNTERS = Tally._fields

Row = tuple[str, int, str]
"""Batch, state and job."""
AddMembers = Callable[[Connection, str, Sequence[str]], None]
"""Writes the rows of new members of one batch."""
Counts = dict[tuple[str, str], Tally]
"""What is added to the numbers of a batch, by batch and queue."""


def batch_terms(new: Sequence[NewJob]) -> list[Terms]:
    """The different terms of those jobs that belong to a batch."""
    different = terms_by(new, "batch_id", "batch_adder") if new else ()
    return [terms for terms in different if terms.batch_id is not None]


def admit(database: Database, connection: Connection, terms: Iterable[Terms]) -> None:
    """Make sure that the batches of new jobs take them, until the end of the transaction; or raise ``BatchClosed``.

    Somebody outside writes to the batch's row, so that it is not sealed meanwhile. A running member writes to its own:
    while that is there the batch cannot end.
    """
    tables = database.tables
    now = database.now(connection)
    for batch_id, adder in sorted({(one.batch_id or "", one.batch_adder or "") for one in terms}):
        members = tables.batch_members
        if adder:
            held = (
                members.c.batch_id == batch_id,
                members.c.state == int(MemberState.OUTSTANDING),
                members.c.job_id == adder,
            )
            kept = connection.execute(update(members).where(*held).values(job_id=adder)).rowcount
            status, cancelled_at = _state(database, connection, batch_id)
            if kept == 1 and cancelled_at is None:
                continue
            why = "it was cancelled" if cancelled_at is not None else f"its member {adder} has ended"
        else:
            touch = database.prepared("admit to batch", lambda: _touch_open(tables.batches))
            if touch.run(cursor_of(connection), {"batch": batch_id, "moment": database.to_driver(now)}) == 1:
                continue
            status, cancelled_at = _state(database, connection, batch_id)
            why = {BatchStatus.RUNNING: "it is sealed"}.get(status, f"it has ended ({status})")
            why = "it was cancelled" if cancelled_at is not None else why
        raise errors.BatchClosed(
            f"batch {batch_id} takes no further jobs: {why}; open another one, or add from inside a running member by "
            "ctx.batch"
        )


def _touch_open(batches: Table) -> Any:
    is_open = (batches.c.id == bindparam("batch"), batches.c.status == BatchStatus.OPEN.value)
    return update(batches).where(*is_open).values(updated_at=bindparam("moment", type_=Instant()))


def _state(database: Database, connection: Connection, batch_id: str) -> tuple[BatchStatus, datetime | None]:
    c = database.tables.batches.c
    row = connection.execute(select(c.status, c.cancelled_at).where(c.id == batch_id)).first()
    if row is None:
        raise errors.UnknownBatch(f"there is no batch {batch_id!r}")
    return BatchStatus(row[0]), row[1]


def write_members(database: Database, connection: Connection, new: Sequence[NewJob], add: AddMembers) -> None:
    """Write the rows of those new jobs that belong to a batch, and count them."""
    terms = batch_terms(new)
    if not terms:
        return
    places = {id(one): (one.batch_id or "", one.queue) for one in terms}
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    if len(terms) == 1 and all(job.terms is terms[0] for job in new):
        # Mostly they are alike.
        ids[places[id(terms[0])]] = [job.id for job in new]
    else:
        for job in new:
            if id(job.terms) in places:
                ids[places[id(job.terms)]].append(job.id)
    for (batch_id, _), job_ids in sorted(ids.items()):
        add(connection, batch_id, job_ids)
    count_members(database, connection, {place: Tally(total=len(found)) for place, found in ids.items()}, None)


def add_outstanding(database: Database, connection: Connection, batch_id: str, job_ids: Sequence[str]) -> None:
    """Write the rows of new members of one batch."""

    def build() -> Any:
        given = database.dialect.given_rows("given", {"job_id": Text()})
        state: ColumnElement[int] = literal_column(str(int(MemberState.OUTSTANDING)))
        values = select(bindparam("batch", type_=Text()), state, given.c.job_id)
        return insert(database.tables.batch_members).from_select(list(_ROW), values)

    statement = database.prepared("write new batch members", build)
    given = msgspec.json.encode([(job_id,) for job_id in job_ids]).decode()
    statement.run(cursor_of(connection), {"given": given, "batch": batch_id})


def insert_members(database: Database, connection: Connection, rows: Sequence[Row]) -> None:
    """Write these rows."""

    def build() -> Any:
        given = database.dialect.given_rows("given", _ROW)
        return insert(database.tables.batch_members).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    statement = database.prepared("write batch members", build)
    statement.run(cursor_of(connection), {"given": msgspec.json.encode(rows).decode()})


def remove_members(database: Database, connection: Connection, rows: Collection[Row]) -> int:
    """Remove these rows; how many there were."""
    c = database.tables.batch_members.c

    def build() -> Any:
        same = (c.batch_id == bindparam("batch"), c.state == bindparam("state"))
        return delete(database.tables.batch_members).where(*same, database.dialect.any_of(c.job_id, "ids"))

    statement = database.prepared("remove batch members", build)
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for batch_id, state, job_id in rows:
        by_place[batch_id, state].append(job_id)
    cursor, removed = cursor_of(connection), 0
    for (batch_id, state), ids in sorted(by_place.items()):
        values = {"batch": batch_id, "state": state, "ids": database.dialect.list_param(sorted(ids))}
        removed += statement.run(cursor, values)
    return removed


def shard_of_process() -> int:
    """Where this process counts members that it adds, or ends by commands."""
    return STATS_SHARDS + os.getpid() % SHARDS


def count_members(database: Database, connection: Connection, counts: Counts, ended_at: datetime | None) -> None:
    """Add to the numbers of batches, in a fixed order, so that nobody waits for another in a ring."""
    table = database.tables.batch_counts
    c = table.c
    shard = shard_of_process()

    def build() -> Any:
        # Under names of their own, which no column has.
        moment = bindparam("moment", type_=Instant())
        values = {name: c[name] + bindparam(f"more_{name}") for name in _COUNTERS}
        values |= {"first_at": func.coalesce(c.first_at, moment), "last_at": func.coalesce(moment, c.last_at)}
        same = (c.batch_id == bindparam("batch"), c.queue == bindparam("place"), c.shard == bindparam("own"))
        return update(table).where(*same).values(values)

    add_to = database.prepared("count batch members", build)
    begin = database.prepared(
        "begin batch counts",
        lambda: database.dialect.insert_if_absent(table, ("batch_id", "queue", "shard", *_COUNTERS)),
    )
    cursor = cursor_of(connection)
    for (batch_id, queue), more in sorted(counts.items()):
        values: dict[str, Any] = {"batch": batch_id, "place": queue, "own": shard}
        values |= {f"more_{name}": number for name, number in more._asdict().items()}
        values["moment"] = None if ended_at is None else database.to_driver(ended_at)
        if add_to.run(cursor, values) == 0:
            zero = {"batch_id": batch_id, "queue": queue, "shard": shard, **dict.fromkeys(_COUNTERS, 0)}
            begin.many(cursor, [zero])
            add_to.run(cursor, values)


class BatchMembers:
    """What happens to batches when their members end, or live again."""

    def __init__(self, database: Database, look: Callable[[Collection[str]], None]) -> None:
        self.database = database
        self.tables = database.tables
        self.look = look
        """Told after the commit of which batches the members have ended: the last one may be among them."""

    def follow(self, followups: Followups) -> None:
        """See to the members that end or are retried."""
        followups.add(Followup.BATCH, self._follow_up)
        followups.members_ended = self.look

    def _follow_up(self, connection: Connection, edges: Sequence[Edge]) -> None:
        found = [(edge.job_id, met) for edge in edges if (met := ending(edge.source, edge.target)) is not None]
        places = self._places(connection, [job_id for job_id, _ in found]) if found else {}
        concerned = [(job_id, *places[job_id], met) for job_id, met in found if job_id in places]
        if concerned:
            self._write(connection, concerned)

    def _write(self, connection: Connection, concerned: Sequence[tuple[str, str, str, Ending]]) -> None:
        removed: set[Row] = set()
        written: list[Row] = []
        alike: dict[tuple[str, str, Ending], int] = defaultdict(int)
        for job_id, batch_id, queue, met in concerned:
            alike[batch_id, queue, met] += 1
            if met.removed is not None:
                removed.add((batch_id, int(met.removed), job_id))
            if met.written is not None:
                written.append((batch_id, int(met.written), job_id))
        remove_members(self.database, connection, removed)
        if written:
            insert_members(self.database, connection, written)
        for batch_id in sorted({batch for batch, _, met in alike if met.written is MemberState.OUTSTANDING}):
            self._reopen(connection, batch_id)
        counts: Counts = defaultdict(Tally)
        for (batch_id, queue, met), number in alike.items():
            counts[batch_id, queue] = Tally(*map(add, counts[batch_id, queue], (number * one for one in met.tally)))
        self._count(connection, {place: more for place, more in counts.items() if any(more)})
        ended = {batch for batch, _, met in alike if met.removed is MemberState.OUTSTANDING}
        if ended:
            self.database.after_commit(connection, self.look, ended)

    def _count(self, connection: Connection, counts: Counts) -> None:
        now = self.database.now(connection)
        ended = {place: more for place, more in counts.items() if more.ended > 0}
        count_members(self.database, connection, ended, now)
        count_members(self.database, connection, {p: more for p, more in counts.items() if p not in ended}, None)

    def _reopen(self, connection: Connection, batch_id: str) -> None:
        """A member lives again. Written to in any case: whoever is about to end the batch is met here."""
        batches = self.tables.batches
        c = batches.c
        status = case((c.sealed_at.is_(None), BatchStatus.OPEN.value), else_=BatchStatus.RUNNING.value)
        # A batch that is being cancelled goes on being so.
        cancelled_at = case((c.action == "cancel", c.cancelled_at), else_=null())
        values = {"status": status, "finished_at": null(), "cancelled_at": cancelled_at}
        connection.execute(update(batches).where(c.id == batch_id).values(values))

    def _places(self, connection: Connection, job_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Batch and queue of those of these jobs that belong to one."""
        c = self.tables.jobs.c

        def build() -> Any:
            by_id = self.database.dialect.any_of(c.id, "ids")
            return select(c.id, c.batch_id, c.queue).where(by_id, c.batch_id.is_not(None))

        query = self.database.prepared("batches of jobs", build)
        given = {"ids": self.database.dialect.list_param(sorted(set(job_ids)))}
        return {row[0]: (row[1], row[2]) for row in query.rows(cursor_of(connection), given)}
