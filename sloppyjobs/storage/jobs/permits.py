"""Permits: taken by a claim in its transaction, given back with the edge that ends the attempt.

A permit is a row whose key is the resource, the partition and a slot below the limit, so that never more are held than
the limit allows, whoever takes them at once and whether rows are locked or not. A claim that finds no permit for a job
parks it: the job waits, out of the way of every claim, and has a row in the line of its partition. Who gives permits
back releases the first of that line in the same transaction, or right after it. Of two who miss each other there, one
giving back and one parking, the sweep makes up; and for one who ends in between.

Rows of a line are written by those who hold the job. Jobs of a line are locked without waiting: whoever has locked one
sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Connection,
    Integer,
    Select,
    Text,
    and_,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, DBAPIError
from sqlalchemy.types import TypeEngine

from sloppyjobs import errors
from sloppyjobs.domain import limits
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.limits import NO_PARTITION, Partition
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.states import Status, WaitingFor
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import Conflict, cursor_of
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.jobs.lanes import Head
from sloppyjobs.storage.jobs.permit_choice import Choice, Held, Room, Wanted
from sloppyjobs.storage.jobs.permit_line import PermitLine
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import Move, Step
from sloppyjobs.storage.schema.instants import Instant

log = get_logger("sloppyjobs.limits")

TRIES = 5
"""How often a claim looks for other slots when somebody was faster with one, before it begins anew."""

_PERMIT: Mapping[str, TypeEngine[Any]] = {
    "resource": Text(),
    "partition_key": Text(),
    "slot": Integer(),
    "job_id": Text(),
    "taken_at": Instant(),
}


class Admission(NamedTuple):
    """What a claim may take, in its order, and how many jobs it parked."""

    ids: list[str]
    parked: int = 0


class Permits:
    """Who may start, and who waits for it."""

    def __init__(self, database: Database, transitions: Transitions, line: PermitLine) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.transitions = transitions
        self.line = line

    def follow(self, followups: Followups) -> None:
        """Give permits back when attempts end, and see to the line when jobs leave it or come to it."""
        followups.add(Followup.PERMIT, self._moved)

    # Claims

    def admit(self, connection: Connection, heads: Sequence[Head], most: int, now: datetime) -> Admission:
        """Which of these queued jobs, held by this transaction, may start: up to ``most``, in their order.

        Those have their permits then, and jobs for which there are none wait.
        """
        self.dialect.plan_by_index(connection)
        wanted = self._wanted(connection, [head.id for head in heads if head.limited])
        known = self.line.limits_of(connection, {one.partition[0] for one in wanted.values()})
        bound = {id: one for id, one in wanted.items() if one.partition[0] in known}
        if not bound:
            chosen = [head.id for head in heads[:most]]
            self._leave_line(connection, chosen, wanted)
            return Admission(chosen)
        partitions = sorted({one.partition for one in bound.values()})
        first_places = self.line.first_places(connection, partitions)
        rated = [partition for partition in partitions if known[partition[0]].rate is not None]
        full_at = self.line.full_at(connection, rated)
        for _ in range(TRIES):
            held = self._held(connection, partitions)
            choice = Choice(
                {
                    one: Room(known[one[0]], held[one], full_at.get(one), first_places.get(one), now)
                    for one in partitions
                }
            )
            chosen = choice.choose(heads, bound, most)
            if self._take(connection, choice, now):
                break
        else:
            raise Conflict("others were faster with every permit")
        self._take_tokens(connection, choice, full_at, now)
        self._leave_line(connection, chosen, wanted)
        if choice.parked:
            self._park(connection, choice.parked, now)
            self.line.release(connection, [part for part in partitions if choice.rooms[part].refused], now)
        return Admission(chosen, len(choice.parked))

    def _leave_line(self, connection: Connection, chosen: Sequence[str], wanted: Mapping[str, Wanted]) -> None:
        """Also where there is no limit any more: a row that stays would stand for a job that is about to start."""
        self.line.leave(connection, [id for id in chosen if id in wanted and wanted[id].released])

    def _wanted(self, connection: Connection, ids: Sequence[str]) -> dict[str, Wanted]:
        query = self.database.prepared("limited jobs", self._limited_jobs)
        found = query.rows(cursor_of(connection), {"ids": self.dialect.list_param(ids)}) if ids else []
        return {
            id: Wanted(id, (resource, partition or NO_PARTITION), -priority, released is not None)
            for id, resource, partition, priority, released in found
            if resource is not None
        }

    def _held(self, connection: Connection, partitions: Sequence[Partition]) -> dict[Partition, Held]:
        query = self.database.prepared("held permits", self._held_permits)
        held = {partition: Held(set(), {}) for partition in partitions}
        for resource, partition, slot, job_id in query.rows(cursor_of(connection), {"given": as_json(partitions)}):
            of_partition = held[resource, partition]
            of_partition.slots.add(slot)
            of_partition.by_job[job_id] = slot
        return held

    def _take(self, connection: Connection, choice: Choice, now: datetime) -> bool:
        """Write the rows of permits; False where somebody was faster with one of them.

        In the order of their keys, so that two who take the same wait for each other in one direction.
        """
        moment = self.database.to_driver(now)
        for resource, partition, slot, job_id in choice.kept():
            # A permit that its job has left over from before: written to, so that whoever removes it sees that.
            c = self.tables.permits.c
            same = (c.resource == resource, c.partition_key == partition, c.slot == slot, c.job_id == job_id)
            if connection.execute(update(self.tables.permits).where(*same).values(taken_at=now)).rowcount != 1:
                return False
        given = [(*permit, moment) for permit in choice.taken()]
        if not given:
            return True
        statement = self.database.prepared("take permits", self._take_permits)
        if self.dialect.one_writer:
            statement.run(cursor_of(connection), {"given": as_json(given)})
            return True
        self.dialect.ensure_begun(connection)
        try:
            with connection.begin_nested(), self.database.translating(connection):
                statement.run(cursor_of(connection), {"given": as_json(given)})
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            return False
        return True

    def _take_tokens(
        self, connection: Connection, choice: Choice, full_at: Mapping[Partition, datetime], now: datetime
    ) -> None:
        for partition, room in sorted(choice.rooms.items(), key=lambda item: item[0]):
            if room.tokens_taken:
                before = full_at.get(partition)
                after = limits.after_taking(room.limit, before, now, room.tokens_taken)
                self.line.set_full_at(connection, partition, before, after)

    def _park(self, connection: Connection, ids: Sequence[str], now: datetime) -> None:
        states = self.transitions.lock_states(connection, ids)
        step = Step(Status.WAITING, "parked", waiting_for=WaitingFor.PERMIT)
        moves: list[Move] = [(state, step) for state in states.values() if state.status is Status.QUEUED]
        if moves:
            self.transitions.write_moves(connection, moves, now, actor=None, message=None)

    # Edges

    def _moved(self, connection: Connection, edges: Sequence[Edge]) -> None:
        now = self.database.now(connection)
        ended = [edge.job_id for edge in edges if edge.source is Status.PROCESSING]
        if ended:
            self.give_back(connection, ended, now)
            if len(ended) == len(edges) and all(edge.target is not Status.WAITING for edge in edges):
                return
        gone = [edge.job_id for edge in edges if _leaves_line(edge)]
        if gone:
            self.line.leave(connection, gone)
        waits = [edge for edge in edges if edge.target is Status.WAITING]
        if waits:
            partitions = self.line.enter(connection, [edge.job_id for edge in waits])
            if any(edge.source is Status.PAUSED for edge in waits):
                self.line.release(connection, partitions, now)

    def give_back(self, connection: Connection, job_ids: Sequence[str], now: datetime) -> int:
        """Remove the permits of these jobs, and let as many of those go on that wait for one; how many it was."""
        cursor, values = cursor_of(connection), {"ids": self.dialect.list_param(sorted(job_ids))}
        freed = self.database.prepared("permits of jobs", self._permits_of_jobs).rows(cursor, values)
        if not freed:
            return 0
        self.database.prepared("return permits", self._return_permits).run(cursor, values)
        partitions = sorted({(resource, partition) for resource, partition in freed})
        self.line.release(connection, partitions, now)
        return len(freed)

    def release(self, partitions: Sequence[Partition]) -> None:
        """Let those start who wait for permits that were given back, in a transaction of its own.

        Never raises: the attempts that held the permits are settled, and there is the sweep.
        """

        def work(connection: Connection) -> None:
            self.dialect.plan_by_index(connection)
            self.line.release(connection, sorted(partitions), self.database.now(connection))

        try:
            self.database.write(work)
        except (errors.JobsError, DatabaseError):
            log.warning("jobs that wait for permits could not be released; it will be tried again", exc_info=True)

    # Statements

    def _limited_jobs(self) -> Select[Any]:
        c, parked = self.tables.jobs.c, self.tables.parked
        columns = (c.id, c.resource, c.partition_key, c.priority, parked.c.job_id)
        query = select(*columns).select_from(self.tables.jobs.outerjoin(parked, parked.c.job_id == c.id))
        return query.where(self.dialect.any_of(c.id, "ids"))

    def _held_permits(self) -> Select[Any]:
        c, given = self.tables.permits.c, self.line.given_partitions()
        same = and_(
            self.dialect.same_key(c.resource, given.c.resource),
            self.dialect.same_key(c.partition_key, given.c.partition_key),
        )
        columns = (c.resource, c.partition_key, c.slot, c.job_id)
        return select(*columns).select_from(given.join(self.tables.permits, same))

    def _permits_of_jobs(self) -> Select[Any]:
        c = self.tables.permits.c
        return select(c.resource, c.partition_key).where(self.dialect.any_of(c.job_id, "ids"))

    def _return_permits(self) -> Any:
        return delete(self.tables.permits).where(self.dialect.any_of(self.tables.permits.c.job_id, "ids"))

    def _take_permits(self) -> Any:
        given = self.dialect.given_rows("given", _PERMIT)
        return insert(self.tables.permits).from_select(list(_PERMIT), select(*(given.c[name] for name in _PERMIT)))


def _leaves_line(edge: Edge) -> bool:
    """Whether a job that may stand in a line does so no more."""
    if edge.source not in (Status.WAITING, Status.QUEUED, Status.PAUSED):
        return False
    return edge.target not in (Status.WAITING, Status.QUEUED)


def as_json(rows: Iterable[Sequence[Any]]) -> str:
    """The rows as the single value that statements take as ``given``."""
    return msgspec.json.encode([tuple(row) for row in rows]).decode()
