"""Writing new jobs that have more than their own rows: business keys, with at most one live job each; places of others.

Everybody takes locks in one order: rows of keys that are written anew, in the order of the keys; then rows of the jobs
that are to be replaced, in the order of their ids. Whoever ends a job has its row, and then removes its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from itertools import count
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, bindparam, select, update

from sloppyjobs import errors
from sloppyjobs.domain.business_keys import Holder, Verdict, in_the_way, verdict
from sloppyjobs.domain.dependencies import Readiness
from sloppyjobs.domain.model import Job, NewJob, terms_by
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.domain.workflows import check_order
from sloppyjobs.storage.batches.members import admit, batch_terms
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.damaged_rows import read_jobs
from sloppyjobs.storage.jobs.dependencies import Dependencies, PreparedEdges
from sloppyjobs.storage.jobs.edge_rows import chunks
from sloppyjobs.storage.jobs.insert import INSERT_TRIES, Insert, as_existing, first_of_each_key, keyed
from sloppyjobs.storage.jobs.keys import Keys, business_keys, may_have_keys
from sloppyjobs.storage.jobs.rows import possible_id, unknown
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import JobState, Move, Step

Begin = Callable[[Connection, datetime], None]
"""Writes what new jobs are parts of."""
Replaced = Mapping[str, JobState]
"""The jobs that are replaced, by the ids of the new ones."""


class LinkedInsert:
    """Insertion of jobs of which some have more than rows of their own: a business key, a place to take, an expiry."""

    def __init__(
        self, database: Database, inserts: Insert, keys: Keys, transitions: Transitions, dependencies: Dependencies
    ) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.inserts = inserts
        self.keys = keys
        self.transitions = transitions
        self.dependencies = dependencies

    def insert_jobs(
        self, new: Sequence[NewJob], connection: Connection | None = None, *, whole: Begin | None = None
    ) -> list[Job]:
        """Write the jobs, all or none; a job whose key is taken is answered as its ``on_conflict`` says.

        ``whole`` is called first, in the same transaction: the jobs are parts of what it writes. Then none of them may
        be answered by another one: ``InvalidWorkflow``, and nothing is written.
        """
        if connection is not None:
            self.dialect.refuse_caller(connection)
        self.database.ensure_schema(connection)
        short = connection is None and whole is None and self.inserts.shortens(new)
        if short and (written := self.inserts.insert_shortly(new)) is not None:
            return written
        runs = count(int(short))

        def work(c: Connection) -> list[Job]:
            self.dialect.ensure_begun(c)
            # A caller may go on after a refusal; then no key may be left behind without its job.
            with nullcontext() if connection is None else c.begin_nested():
                return self.insert_all(c, new, whole, rerun=next(runs) > 0)

        return self.database.write(work, connection)

    def insert_all(
        self, connection: Connection, new: Sequence[NewJob], whole: Begin | None = None, *, rerun: bool
    ) -> list[Job]:
        """The same inside of a transaction; ``rerun``: an earlier run of it may have been committed."""
        now = self.database.now(connection)
        answers: dict[str, Job] = {}
        if rerun:
            # An earlier run of this transaction may have been committed, although nobody was told.
            ours = {job.id for job in new}
            answers = {job.id: job for job in self.inserts.holders(connection, new, ids=True) if job.id in ours}
        left = [job for job in new if job.id not in answers] if answers else new
        admit(self.database, connection, batch_terms(left))
        cancelled: set[str] = set()
        if left and whole is not None:
            whole(connection, now)
            answers |= self._insert_part(connection, left, now, cancelled, refuse=_refuse_existing)
        elif left:
            for generation in _generations(left):
                for part in _with_distinct_keys(generation):
                    answers |= self._insert_part(connection, part, now, cancelled)
        ids = {job.id for job in answers.values()} if cancelled else set()
        if cancelled & ids or (cancelled and any(job.terms.depends_on for job in left)):
            # What was written first has been moved since: nobody is told of a job as it was for a moment.
            as_it_is = self._read(connection, ids)
            answers = {new_id: _as_it_is(job, as_it_is) for new_id, job in answers.items()}
        return [answers[job.id] for job in new]

    def _insert_part(
        self,
        connection: Connection,
        new: Sequence[NewJob],
        now: datetime,
        cancelled: set[str],
        refuse: Callable[[Mapping[str, Job]], None] = lambda _answers: None,
    ) -> dict[str, Job]:
        """Jobs of which no two have the same business key; ``refuse`` may raise because of jobs that are there.

        ``cancelled`` is told which jobs end by it: those that can never start, and those whose places are taken.
        """
        answers = self._known(connection, new) if keyed(new) else {}
        wanted = _without(new, answers)
        replaced = self._hold_replaced(connection, wanted)
        kept, taken_from = self._take_keys(connection, wanted, now)
        answers |= self._existing(connection, kept)
        refuse(answers)
        replaced |= taken_from
        fresh = _without(wanted, answers)
        fresh = [_superseding(job, replaced) for job in fresh] if replaced else fresh
        edges = self.dependencies.prepare(connection, fresh) if any(job.terms.depends_on for job in fresh) else None
        fresh = fresh if edges is None else [_placed(job, edges) for job in fresh]
        written = self.inserts.insert_all(connection, fresh, rerun=False) if fresh else []
        answers |= {job.id: found for job, found in zip(fresh, written, strict=True)}
        refuse(answers)
        # Where somebody was faster with an idempotency key, that job is the answer.
        missed = [job for job, found in zip(fresh, written, strict=True) if found.id != job.id] if keyed(fresh) else []
        self.keys.give_up(connection, {key: job.id for job in missed if (key := job.terms.business_key) is not None})
        if edges is None and not replaced:
            return answers
        written_ids = {job.id for job in written}
        if edges is not None:
            cancelled.update(self.dependencies.write(connection, edges.only(written_ids), now))
        superseded = {new_id: state for new_id, state in replaced.items() if new_id in written_ids}
        if superseded and edges is not None:
            # A job that waits for one of them may just have said so in its row.
            states = self.transitions.lock_states(connection, [state.id for state in superseded.values()])
            superseded = {new_id: states[state.id] for new_id, state in superseded.items()}
        if superseded:
            self._supersede(connection, superseded, now)
            cancelled.update(state.id for state in superseded.values())
        return answers

    def _known(self, connection: Connection, new: Sequence[NewJob]) -> dict[str, Job]:
        """The jobs that have the idempotency keys of new ones, as they are told to those who meant these."""
        known = {job.idempotency_key: job for job in self.inserts.holders(connection, new, ids=False)}
        return {
            job.id: as_existing(known[job.terms.idempotency_key])
            for job in new
            if job.terms.idempotency_key is not None and job.terms.idempotency_key in known
        }

    def _hold_replaced(self, connection: Connection, new: Sequence[NewJob]) -> dict[str, JobState]:
        """The jobs that these name as those whose places they take, locked; ``InvalidTransition`` for one that runs."""
        if all(one.supersedes is None for one in terms_by(new, "supersedes")):
            return {}
        named = {job.id: possible_id(job.terms.supersedes) for job in new if job.terms.supersedes is not None}
        states = self.transitions.lock_states(connection, list(named.values()))
        for job_id in named.values():
            state = states.get(job_id)
            if state is None:
                raise unknown(job_id)
            if state.status is Status.PROCESSING or state.status in FINISHED:
                raise errors.InvalidTransition(
                    f"job {job_id} is {state.status} and cannot be replaced; enqueue another one", status=state.status
                )
        return {new_id: states[job_id] for new_id, job_id in named.items()}

    def _take_keys(
        self, connection: Connection, new: Sequence[NewJob], now: datetime
    ) -> tuple[dict[str, str], dict[str, JobState]]:
        """Take the keys of these jobs. Those that others keep are answered by the ids of their jobs."""
        kept: dict[str, str] = {}
        replaced: dict[str, JobState] = {}
        if not may_have_keys(new):
            return kept, replaced
        first = first_of_each_key(new) if keyed(new) else new
        pending = {key: job for job in first if (key := job.terms.business_key) is not None}
        queued = False
        for _ in range(INSERT_TRIES):
            if not pending:
                return kept, replaced
            held = self.keys.holders(connection, sorted(pending))
            if not queued and len(pending) > 1 and any(pending[key].terms.on_conflict == "replace" for key in held):
                # The rows of those who hold the keys say no order: each of them may be another one by then.
                self.dialect.take_turns(connection, sorted(pending))
                queued = True
                continue
            absent = [job for key, job in pending.items() if key not in held] if held else list(pending.values())
            if absent and not self.keys.reserve(connection, absent, now):
                # Somebody was faster with one of them, and has committed by now.
                continue
            pending = {key: job for key, job in pending.items() if key in held}
            contested: dict[str, Holder] = {}
            for key, holder in held.items():
                job = pending[key]
                on_conflict = _on_conflict(job, holder)
                match verdict(holder, on_conflict, now):
                    case Verdict.RETURN:
                        kept[job.id] = holder.job_id
                        del pending[key]
                    case Verdict.REJECT:
                        raise errors.KeyConflict(in_the_way(holder, on_conflict), job_id=holder.job_id)
                    case _:
                        contested[key] = holder
            for job, state in self._hand_over(connection, contested, pending, now):
                pending = {key: other for key, other in pending.items() if other is not job}
                if state is not None:
                    replaced[job.id] = state
        raise errors.JobsError(
            f"the business key {min(pending)!r} is taken by a job that this transaction cannot see: roll back and run "
            "the transaction again"
        )

    def _hand_over(
        self, connection: Connection, contested: Mapping[str, Holder], new: Mapping[str, NewJob], now: datetime
    ) -> Iterator[tuple[NewJob, JobState | None]]:
        """Give these keys to the new jobs, if that is still right when the rows of their holders are locked.

        With the job whose key it was, where that is to be replaced.
        """
        if not contested:
            return
        states = self.transitions.lock_states(connection, [holder.job_id for holder in contested.values()])
        for key, holder in sorted(contested.items()):
            state = states.get(holder.job_id)
            if state is None:
                seen = holder._replace(status=None)
            else:
                seen = holder._replace(status=state.status, attempts=state.attempt_count)
            found = verdict(seen, _on_conflict(new[key], seen), now)
            taken = found in (Verdict.FREE, Verdict.REPLACE)
            if taken and self.keys.hand_over(connection, holder, new[key], now):
                yield new[key], state if found is Verdict.REPLACE else None

    def _existing(self, connection: Connection, kept: Mapping[str, str]) -> dict[str, Job]:
        """The jobs that keep their keys, for each of the new ones."""
        found = self._read(connection, set(kept.values())) if kept else {}
        # One that was purged in this very moment has given up its key.
        return {new_id: as_existing(found[holder]) for new_id, holder in kept.items()}

    def _read(self, connection: Connection, ids: Collection[str]) -> dict[str, Job]:
        jobs = self.tables.jobs
        found: dict[str, Job] = {}
        for some in chunks(sorted(ids)):
            query = select(*rows.columns(jobs, rows.JOB_FIELDS)).where(jobs.c.id.in_(some))
            found |= {job.id: job for job in read_jobs(self.dialect, connection, query)}
        return found

    def _supersede(self, connection: Connection, replaced: Replaced, now: datetime) -> None:
        """Cancel the jobs whose places were taken, and say by which."""
        moves: list[Move] = [(state, Step(Status.CANCELLED, "superseded")) for state in replaced.values()]
        self.transitions.write_moves(connection, moves, now, actor=None, message="another job has taken its place")
        jobs = self.tables.jobs
        mark: Any = update(jobs).where(jobs.c.id == bindparam("old")).values(superseded_by=bindparam("new"))
        connection.execute(mark, [{"old": state.id, "new": new_id} for new_id, state in replaced.items()])


def _generations(new: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs in parts of which each depends only on jobs of earlier parts, or on jobs that are there already.

    All at once where none can be answered by another job, which their children would wait for in its place.
    """
    if not any(one.depends_on for one in terms_by(new, "depends_on")):
        yield new
        return
    here = {job.id for job in new}
    inside = {job.id: {edge.parent_id for edge in job.terms.depends_on} & here for job in new if job.terms.depends_on}
    if not any(inside.values()):
        yield new
        return
    check_order(new)
    if not any(job.terms.idempotency_key or job.terms.business_key for job in new):
        yield new
        return
    left, done = list(new), set[str]()
    while left:
        ready = [job for job in left if inside.get(job.id, set()) <= done]
        yield ready
        done |= {job.id for job in ready}
        left = [job for job in left if job.id not in done]


def _on_conflict(new: NewJob, holder: Holder) -> str:
    """What a new job does to the one that has its key. One that is to replace a certain job replaces no other one."""
    terms = new.terms
    if terms.supersedes == holder.job_id:
        return "replace"
    replaces_another = terms.supersedes is not None and terms.on_conflict == "replace"
    return "reject" if replaces_another else terms.on_conflict


def _refuse_existing(answers: Mapping[str, Job]) -> None:
    """A graph is written whole: a job that is there already has its own parents."""
    existing = next((job for job in answers.values() if job.existing), None)
    if existing is not None:
        raise errors.InvalidWorkflow(
            f"a job of the workflow has a key that job {existing.id} has: a workflow is written whole, or not at all"
        )


def _with_distinct_keys(new: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """The jobs in parts in which no two have the same key: each part sees what the one before has written."""
    keys = business_keys(new)
    if len(set(keys)) == len(keys):
        return iter([new])
    parts: list[list[NewJob]] = []
    seen: dict[str, int] = {}
    for job in new:
        key = job.terms.business_key
        place = 0 if key is None else seen.get(key, 0)
        if key is not None:
            seen[key] = place + 1
        if place == len(parts):
            parts.append([])
        parts[place].append(job)
    return iter(parts)


def _without(new: Sequence[NewJob], answers: Mapping[str, Job]) -> Sequence[NewJob]:
    """Those of these jobs that are not answered yet."""
    return [job for job in new if job.id not in answers] if answers else new


def _placed(new: NewJob, edges: PreparedEdges) -> NewJob:
    """The job with what its edges, and those of others to it, say of it."""
    waits = edges.readiness.get(new.id, Readiness.READY) is not Readiness.READY
    awaited = new.id in edges.awaited
    if not waits and not awaited:
        return new
    return replace(new, terms=replace(new.terms, waits=waits, awaited=awaited))


def _as_it_is(told: Job, found: Mapping[str, Job]) -> Job:
    job = found.get(told.id, told)
    return as_existing(job) if told.existing else job


def _superseding(new: NewJob, replaced: Replaced) -> NewJob:
    state = replaced.get(new.id)
    return new if state is None else replace(new, terms=replace(new.terms, supersedes=state.id))
