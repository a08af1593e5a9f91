"""Edges between jobs: written with the child, decided when a parent ends, in the transaction that ends it.

The rows of parents are locked in id order when a child is written, so that a parent which ends at the same moment is
seen. When parents end, the rows of their children are written to before the edges are read: of two parents that end at
once, the second one waits for the first and then sees its edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from threading import local
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, SmallInteger, Text, and_, insert, not_, or_, select, update
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.dependencies import Dependency, EdgeState, Readiness, comparison, edge_state, readiness
from sloppyjobs.domain.followups import Followup
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.parents import ParentResult
from sloppyjobs.domain.sealed import OpenText, is_sealed, key_of
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.errors import DecryptionFailed, InvalidWorkflow
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs.edge_rows import EdgeRows, OpenEdge, WaitingChild, chunks
from sloppyjobs.storage.jobs.followups import Edge, Followups
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import JobState, Step
from sloppyjobs.storage.reads.keyset import same_value

SUCCEEDED = Status.SUCCEEDED
EDGES = 5000
"""Edges in one statement."""
PARENT_ENDED = "a job that it depends on did not end as it needs"
_ROW: Mapping[str, TypeEngine[Any]] = {
    "child_id": Text(),
    "parent_id": Text(),
    "needs": Text(),
    "result_test": Text(),
    "state": SmallInteger(),
}


class PreparedEdges(NamedTuple):
    """The edges of new jobs as they are to be written, and what they say of each job."""

    rows: list[tuple[Any, ...]]
    readiness: dict[str, Readiness]
    awaited: Collection[str] = ()
    """Those of the new jobs for which others of them wait."""

    def only(self, job_ids: Collection[str]) -> PreparedEdges:
        """Those of these jobs."""
        return PreparedEdges(
            [row for row in self.rows if row[0] in job_ids],
            {job_id: one for job_id, one in self.readiness.items() if job_id in job_ids},
            self.awaited,
        )


class ResultOpener:
    """How stored results are read: as they are, unless somebody can decrypt them. Stores of one database share it."""

    def __init__(self) -> None:
        self.open_text: OpenText = lambda _owner, _what, text: text


class Dependencies:
    """Which jobs wait for which."""

    def __init__(self, database: Database, transitions: Transitions, opener: ResultOpener) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.transitions = transitions
        self.opener = opener
        self.rows = EdgeRows(database)
        self._ended = local()

    def follow(self, followups: Followups) -> None:
        """See to the children of jobs that end, and to children that wait again."""
        followups.add(Followup.DEPENDANTS, self._parents_moved)
        followups.add(Followup.PARENTS, self._children_moved)

    # New jobs

    def prepare(self, connection: Connection, new: Sequence[NewJob]) -> PreparedEdges:
        """Lock the parents of these jobs, see how they are, and let them know that somebody waits for them."""
        dependent = [job for job in new if job.terms.depends_on]
        here = {job.id for job in new}
        edges = [(job.id, edge) for job in dependent for edge in job.terms.depends_on]
        wanted = sorted({edge.parent_id for _, edge in edges} - here)
        states: dict[str, JobState] = {}
        for ids in chunks(wanted):
            states |= self.transitions.lock_states(connection, ids)
        missing = [parent for parent in wanted if parent not in states]
        if missing:
            raise InvalidWorkflow(f"depends_on names {missing[0]!r}, and there is no such job; it may have been purged")
        done = {state.id for state in states.values() if state.status is SUCCEEDED}
        results = self._results(connection, {edge.parent_id for _, edge in edges if edge.when} & done)
        rows = []
        numbers: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        awaited: set[str] = set()
        for job_id, edge in edges:
            status = Status.QUEUED if edge.parent_id in here else states[edge.parent_id].status
            state = edge_state(edge, status, results.get(edge.parent_id))
            numbers[job_id][state] += 1
            if state is EdgeState.OPEN:
                awaited.add(edge.parent_id)
            test = None if edge.when is None else msgspec.json.encode(edge.when).decode()
            rows.append((job_id, edge.parent_id, edge.on, test, int(state)))
        self._mark(connection, [states[parent] for parent in sorted(awaited - here)])
        by_job = {job.id: readiness(numbers[job.id], any_parent=job.terms.depends_on_any) for job in dependent}
        return PreparedEdges(rows, by_job, awaited & here)

    def write(self, connection: Connection, prepared: PreparedEdges, now: datetime) -> list[str]:
        """Write the edges of jobs that were just inserted, and cancel those that can never start; which these are."""
        statement = self.database.prepared("write dependencies", self._write_dependencies)
        for start in range(0, len(prepared.rows), EDGES):
            given = msgspec.json.encode(prepared.rows[start : start + EDGES]).decode()
            statement.run(cursor_of(connection), {"given": given})
        impossible = [job_id for job_id, one in prepared.readiness.items() if one is Readiness.IMPOSSIBLE]
        if impossible:
            self._cancel(connection, impossible, now)
        return impossible

    def _mark(self, connection: Connection, parents: Sequence[JobState]) -> None:
        """Set the bit that says that somebody waits; ``Conflict`` where a parent has moved on since it was read.

        Also of those that have it: where rows are not locked when they are read, only this write meets their end.
        """
        jobs = self.tables.jobs
        alike: dict[tuple[int | None, Status], list[str]] = defaultdict(list)
        for state in parents:
            alike[state.followups, state.status].append(state.id)
        for (bits, status), ids in alike.items():
            marked = int((bits or 0) | Followup.DEPENDANTS)
            for chunk in chunks(ids):
                same = (jobs.c.id.in_(chunk), jobs.c.status == status.value, same_value(jobs.c.followups, bits))
                changed = connection.execute(update(jobs).where(*same).values(followups=marked)).rowcount
                all_changed(changed, len(chunk))

    def _write_dependencies(self) -> Any:
        given = self.dialect.given_rows("given", _ROW)
        return insert(self.tables.dependencies).from_select(list(_ROW), select(*(given.c[name] for name in _ROW)))

    # When parents end

    def _parents_moved(self, connection: Connection, edges: Sequence[Edge]) -> None:
        """Decide the edges of parents that have ended; children that are cancelled are parents in their turn."""
        ended = {edge.job_id: edge.target for edge in edges if edge.target is None or edge.target in FINISHED}
        if ended:
            self._decide_all(connection, ended)

    def _decide_all(self, connection: Connection, ended: Mapping[str, Status | None]) -> int:
        """Decide the edges of these parents, and of those that end by it; how many jobs were moved."""
        waiting = getattr(self._ended, "parents", None)
        if waiting is not None:
            # We are inside the loop below: a long chain is no deep recursion.
            waiting.append(ended)
            return 0
        self._ended.parents = waiting = [ended]
        moved = 0
        try:
            while waiting:
                moved += self._decide(connection, waiting.pop())
        finally:
            self._ended.parents = None
        return moved

    def _decide(self, connection: Connection, ended: Mapping[str, Status | None]) -> int:
        if self.dialect.one_writer and all(status is SUCCEEDED for status in ended.values()):
            return sum(self._succeed(connection, parents) for parents in chunks(sorted(ended)))
        return self._decide_each(connection, ended)

    def _succeed(self, connection: Connection, parents: Sequence[str]) -> int:
        """As ``_decide_each`` for parents that have succeeded, with fewer looks, where nobody else writes meanwhile."""
        now = self.database.now(connection)
        found = self.rows.awaiting(connection, parents, now)
        if found is None:
            return self._decide_each(connection, dict.fromkeys(parents, SUCCEEDED))
        if found.found:
            self.rows.decide(connection, parents, EdgeState.MET)
        self._start(connection, found.ready, now)
        return len(found.ready) + self._move(connection, found.others, found.numbers, now)

    def _decide_each(self, connection: Connection, ended: Mapping[str, Status | None]) -> int:
        """Edge by edge, by how each parent has ended."""
        found = self.rows.open_edges(connection, sorted(ended))
        tested = [edge.parent_id for edge in found if edge.result_test and ended[edge.parent_id] is SUCCEEDED]
        results = self._results(connection, tested)
        decided: dict[str, dict[EdgeState, list[str]]] = defaultdict(lambda: defaultdict(list))
        for edge in found:
            decided[edge.parent_id][_decided(edge, ended[edge.parent_id], results)].append(edge.child_id)
        children = sorted(
            {
                child
                for groups in decided.values()
                for state, ids in groups.items()
                if state is not EdgeState.OPEN
                for child in ids
            }
        )
        self.rows.touch(connection, children)
        self._write_states(connection, decided)
        return self.release(connection, children)

    def _write_states(self, connection: Connection, decided: Mapping[str, Mapping[EdgeState, Sequence[str]]]) -> None:
        """Write how the open edges of parents were decided: all of a parent at once where they are alike.

        No edge can be added meanwhile: whoever writes a child must write to its parent, whose row we have.
        """
        c = self.tables.dependencies.c
        alike: dict[EdgeState, list[str]] = defaultdict(list)
        for parent, groups in decided.items():
            if len(groups) == 1:
                alike[next(iter(groups))].append(parent)
                continue
            for state, children in groups.items():
                for ids in chunks(children) if state is not EdgeState.OPEN else ():
                    same = (c.parent_id == parent, c.child_id.in_(ids), c.state == int(EdgeState.OPEN))
                    connection.execute(update(self.tables.dependencies).where(*same).values(state=int(state)))
        for state, parents in alike.items():
            if state is not EdgeState.OPEN:
                self.rows.decide(connection, sorted(parents), state)

    def _children_moved(self, connection: Connection, edges: Sequence[Edge]) -> None:
        """A child that waits again, after a pause: its parents may have ended meanwhile."""
        waits = [edge.job_id for edge in edges if edge.target is Status.WAITING]
        if waits:
            self.release(connection, waits)

    def look_again(self, connection: Connection, children: Sequence[str]) -> int:
        """Decide edges whose parents have ended without it, and move children that need not wait; how many it was."""
        ended: set[str] = set()
        for ids in chunks(sorted(children)):
            ended |= set(connection.execute(self._undecided(ids)).scalars())
        moved = 0
        for ids in chunks(sorted(ended)):
            states = self.transitions.lock_states(connection, ids)
            now = {parent: states[parent].status if parent in states else None for parent in ids}
            moved += self._decide_all(connection, now)
        return moved + self.release(connection, children)

    def _undecided(self, children: Sequence[str]) -> Select[Any]:
        """The parents that have ended, or are gone, and whose edges to these children are open nevertheless."""
        edges, jobs = self.tables.dependencies, self.tables.jobs
        joined = edges.outerjoin(jobs, jobs.c.id == edges.c.parent_id)
        ended = or_(jobs.c.id.is_(None), jobs.c.status.in_([status.value for status in FINISHED]))
        # A dead parent holds those that need its success.
        held = and_(jobs.c.status == Status.DEAD.value, edges.c.needs == "success")
        query = select(edges.c.parent_id).select_from(joined)
        is_open = (edges.c.child_id.in_(children), edges.c.state == int(EdgeState.OPEN))
        return query.where(*is_open, ended, or_(jobs.c.id.is_(None), not_(held))).distinct()

    def release(self, connection: Connection, children: Sequence[str]) -> int:
        """Let those start of whose edges enough are met, and cancel those that never can; how many were moved."""
        now = self.database.now(connection)
        moved = 0
        for ids in chunks(sorted(children)):
            waiting = self.rows.waiting(connection, ids, now)
            numbers = self.rows.numbers(connection, [one.id for one in waiting]) if waiting else {}
            moved += self._move(connection, waiting, numbers, now)
        return moved

    def _move(
        self,
        connection: Connection,
        waiting: Sequence[WaitingChild],
        numbers: Mapping[str, Mapping[int, int]],
        now: datetime,
    ) -> int:
        """Let children start, or cancel them, by the numbers of their edges in each state; how many were moved."""
        by_readiness: dict[Readiness, list[WaitingChild]] = defaultdict(list)
        for one in waiting:
            any_parent = bool(one.bits & _ANY_PARENT)
            by_readiness[readiness(numbers.get(one.id, {}), any_parent=any_parent)].append(one)
        ready = by_readiness[Readiness.READY]
        self._start(connection, ready, now)
        if impossible := by_readiness[Readiness.IMPOSSIBLE]:
            self._cancel(connection, [one.id for one in impossible], now)
        return len(ready) + len(impossible)

    def _start(self, connection: Connection, ready: Sequence[WaitingChild], now: datetime) -> None:
        if ready:
            self.transitions.followups.after(connection, self.rows.start(connection, ready, now))

    def _cancel(self, connection: Connection, job_ids: Sequence[str], now: datetime) -> None:
        """Cancel jobs that can never start; ``Conflict`` where one does not wait any more."""
        states = self.transitions.lock_states(connection, job_ids)
        moves = [(state, _CANCELLED) for state in states.values() if state.status is Status.WAITING]
        all_changed(len(moves), len(job_ids))
        self.transitions.write_moves(connection, moves, now, actor=None, message=PARENT_ENDED)

    # Reading

    def read_results_by(self, open_text: OpenText) -> None:
        """Read results by this function from now on."""
        self.opener.open_text = open_text

    def parent_results(self, job_id: str) -> list[ParentResult]:
        """The parents of a job, in the order of their ids: the id, the name and the result of each, as JSON."""
        edges, jobs = self.tables.dependencies.c, self.tables.jobs.c
        query = (
            select(jobs.id, jobs.name, jobs.result)
            .select_from(self.tables.dependencies.join(self.tables.jobs, jobs.id == edges.parent_id))
            .where(edges.child_id == job_id)
            .order_by(jobs.id)
        )
        return self.database.read(lambda c: [(row[0], row[1], row[2]) for row in c.execute(query)])

    def _results(self, connection: Connection, parents: Iterable[str]) -> dict[str, Any]:
        """The results of those of these jobs that have one."""
        c = self.tables.jobs.c
        found: dict[str, Any] = {}
        for ids in chunks(sorted(set(parents))):
            for row in connection.execute(select(c.id, c.result).where(c.id.in_(ids), c.result.is_not(None))):
                found[row.id] = _decoded(self.opener.open_text(row.id, "result", row.result))
        return found


_ANY_PARENT = int(Followup.ANY_PARENT)
_CANCELLED = Step(Status.CANCELLED, "cancelled")


def _decided(edge: OpenEdge, status: Status | None, results: Mapping[str, Any]) -> EdgeState:
    if edge.result_test is None:
        return _untested(edge.needs, status)
    when = comparison(edge.result_test)
    if when is None and status is SUCCEEDED:
        # Somebody has changed the condition by hand: nothing runs by what cannot be read, and the parent ends.
        return EdgeState.FAILED
    return edge_state(Dependency(edge.parent_id, edge.needs, when), status, results.get(edge.parent_id))


@lru_cache(maxsize=64)
def _untested(needs: str, status: Status | None) -> EdgeState:
    return edge_state(Dependency("", needs), status, None)


def _decoded(text: str) -> Any:
    if is_sealed(text):
        # Nothing must be decided by what cannot be read.
        key = key_of(text)
        why = f"a job depends on a result that is encrypted with key {key}, and there are no keys here"
        raise DecryptionFailed(why, key=key, missing=True)
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        # Somebody has changed it by hand: nothing compares with it.
        return None
