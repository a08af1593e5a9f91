"""Retries of a cause of death: a canary at once, the rest at a rate, step by step, by whichever worker comes first.

A run is a row. Whoever advances it holds the row's lock from reading it until the jobs are retried and the row says
so: two workers never do the same step, and a worker that dies in the middle has done nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from sloppyjobs import errors
from sloppyjobs.domain import causes
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.admin.retry_run_rows import RetryRunRows, count_fates
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.commands import Commands
from sloppyjobs.storage.jobs.transitions import Transitions
from sloppyjobs.storage.ports.operators import Asked, Command, Decide, JobState, Run
from sloppyjobs.storage.ports.reads import Cause, JobQuery, Key
from sloppyjobs.storage.reads.dead_groups import DeadGroups
from sloppyjobs.storage.reads.job_lists import JobLists
from sloppyjobs.storage.reads.keyset import Keyset, Scan

PAGES = 10
"""Pages of the dead of a cause in which the next jobs of a run are searched."""
RECHECK_AFTER = timedelta(seconds=2)
"""When a run that waits for its jobs checks them again."""
SYSTEM = "sloppyjobs"
"""Who stops a run whose jobs die again."""


class RetryRuns:
    """Canaries, and the rest at a rate."""

    def __init__(
        self,
        database: Database,
        lists: JobLists,
        transitions: Transitions,
        audit: Audit,
        retry_run_rows: RetryRunRows,
        keyset: Keyset,
        commands: Commands,
        dead_groups: DeadGroups,
    ) -> None:
        self.database = database
        self.tables = database.tables
        self.lists = lists
        self.transitions = transitions
        self.audit = audit
        self.retry_run_rows = retry_run_rows
        self.keyset = keyset
        self.commands = commands
        self.dead_groups = dead_groups

    def begin_canary(self, asked: Asked, count: int) -> Run:
        """Retry the oldest ``count`` dead jobs of a cause, and remember which; ``InvalidTransition`` for none."""
        self.database.ensure_schema()

        def work(connection: Connection) -> Run:
            known = self.retry_run_rows.find(connection, asked.run_id)
            if known is not None:
                # An earlier try of this transaction was committed, and its answer was lost.
                return known
            self.database.bounded(connection)
            moved, _ = self._retry_oldest(connection, asked, count)
            if not moved:
                raise errors.InvalidTransition("No job of this cause is dead any more")
            now = self.database.now(connection)
            run = _new_run(asked, "canary", now)._replace(
                state="finished", wanted=count, retried=len(moved), next_at=None, ended_at=now
            )
            self._write_run(connection, run, asked.command, {"jobs": len(moved)})
            self._write_members(connection, run.id, 0, moved)
            return run

        return self.database.write(work)

    def begin_rest(self, asked: Asked, rate: float) -> Run:
        """Let the workers retry all that are dead of a cause now; ``InvalidTransition`` where a run is at it."""
        self.database.ensure_schema()

        def work(connection: Connection) -> Run:
            known = self.retry_run_rows.find(connection, asked.run_id)
            if known is not None:
                return known
            self.database.bounded(connection)
            count = self._hold_cause(connection, asked)
            if not count:
                raise errors.InvalidTransition("No job of this cause is dead any more")
            run = _new_run(asked, "rest", self.database.now(connection))._replace(rate=rate, wanted=count)
            if self._running(connection, run.cause):
                raise errors.InvalidTransition("A retry of this cause is running already")
            self._write_run(connection, run, asked.command, {"jobs": count, "rate": rate})
            return run

        return self.database.write(work)

    def advance(self, run_id: str, decide: Decide) -> int:
        """Do what a run has to do now: retry what is due by its rate, or end it. How many it retried.

        Nothing where somebody else is at it, or has just been.
        """

        def work(connection: Connection) -> int:
            self.database.bounded(connection)
            run = self.retry_run_rows.find(connection, run_id, lock=True)
            now = self.database.now(connection)
            if run is None or run.state != "running" or run.next_at is None or run.next_at > now or run.rate is None:
                return 0
            statuses = self.retry_run_rows.member_statuses(connection, run_id)
            if causes.dies_again(statuses):
                self._stop(connection, run, now, Command("stop_retry", SYSTEM, causes.DIED_AGAIN), causes.DIED_AGAIN)
                return 0
            pace = causes.pace(run.rate, run.next_at, now, count_fates(statuses))
            return self._retry_due(connection, run, pace, decide, now)

        return self.database.write(work)

    def stop(self, run_id: str, command: Command) -> bool:
        """Stop a run; False where it has ended already."""
        self.database.ensure_schema()

        def work(connection: Connection) -> bool:
            run = self.retry_run_rows.find(connection, run_id, lock=True, wait=True)
            if run is None or run.state != "running":
                return False
            because = f"stopped by {command.actor}" if command.actor else "stopped"
            self._stop(connection, run, self.database.now(connection), command, because)
            return True

        return self.database.write(work)

    # One step

    def _retry_due(self, connection: Connection, run: Run, pace: causes.Pace, decide: Decide, now: datetime) -> int:
        if not pace.jobs:
            self._update(connection, run.id, next_at=max(pace.next_at, now + RECHECK_AFTER))
            return 0
        asked = Asked(run.id, run.of, run.scope, decide, Command("retry", run.actor, run.reason))
        after = self._last_key(connection, run)
        moved, left = self._retry_oldest(connection, asked, pace.jobs, after, run.created_at)
        self._write_members(connection, run.id, run.retried, moved)
        if moved or left:
            self._update(connection, run.id, retried=run.retried + len(moved), next_at=pace.next_at)
        else:
            self._update(connection, run.id, state="finished", next_at=None, ended_at=now)
        return len(moved)

    def _retry_oldest(
        self,
        connection: Connection,
        asked: Asked,
        limit: int,
        after: Key | None = None,
        before: datetime | None = None,
    ) -> tuple[list[JobState], bool]:
        """Retry the oldest dead of a cause beyond a key that died by an instant; and whether some may be left."""
        scan = self._cause_scan(asked.cause, asked.queues, before)
        for _ in range(PAGES):
            page = self.keyset.read(connection, [scan], after=after, descending=False, limit=limit)
            ids = [key[-1] for key in page.found]
            command = asked.command
            taken = (
                self.commands.command(connection, ids, asked.decide, actor=command.actor, message=command.reason)
                if ids
                else []
            )
            states = {one.job_id: one.before for one in taken if one.step is not None and one.before is not None}
            if states:
                return [states[id] for id in ids if id in states], True
            # Others took them first, or the page was empty at its bound.
            after = page.resume
            if after is None and not ids:
                return [], False
        return [], True

    def _cause_scan(self, cause: Cause, queues: tuple[str, ...] | None, before: datetime | None) -> Scan:
        error_type, error_frame, name = cause
        wanted = JobQuery(
            statuses=(Status.DEAD,), name=name, error_type=error_type, error_frame=error_frame, scope=queues
        )
        [scan] = self.lists.job_scans(wanted)
        if before is None:
            return scan
        c = self.tables.jobs.c
        died = func.coalesce(c.finished_at, c.updated_at)
        return scan._replace(filters=(*scan.filters, (died, lambda given: given <= before)))

    def _last_key(self, connection: Connection, run: Run) -> Key | None:
        """Where the run is among the dead of its cause; None at its beginning."""
        jobs, members = self.tables.jobs, self.tables.retry_members
        query = select(jobs.c.created_at, jobs.c.id).join_from(members, jobs, members.c.job_id == jobs.c.id)
        query = query.where(members.c.run_id == run.id, members.c.number == run.retried)
        row = connection.execute(query).first()
        return None if row is None else tuple(row)

    def _hold_cause(self, connection: Connection, asked: Asked) -> int:
        """How many are dead of a cause. The oldest of them is locked: of two that begin, one sees the other."""
        scan = self._cause_scan(asked.cause, asked.queues, None)
        first = self.keyset.read(connection, [scan], after=None, descending=False, limit=1).found
        if not first:
            return 0
        self.transitions.lock_states(connection, [first[0][-1]])
        return self.dead_groups.dead_in(connection, asked.cause, asked.queues).jobs.number

    # Statements

    def _running(self, connection: Connection, cause: str) -> bool:
        c = self.tables.retry_runs.c
        query = select(c.id).where(c.state == "running", c.cause == cause).limit(1)
        return connection.execute(query).first() is not None

    def _write_run(self, connection: Connection, run: Run, command: Command, detail: dict[str, Any]) -> None:
        connection.execute(insert(self.tables.retry_runs).values(run._asdict()))
        self.audit.write(connection, command, "cause", run.cause, _told(run) | detail)

    def _write_members(self, connection: Connection, run_id: str, after: int, moved: Sequence[JobState]) -> None:
        rows = [
            {"run_id": run_id, "number": after + place, "job_id": state.id, "attempt_count": state.attempt_count}
            for place, state in enumerate(moved, 1)
        ]
        if rows:
            connection.execute(insert(self.tables.retry_members), rows)

    def _update(self, connection: Connection, run_id: str, **values: Any) -> None:
        runs = self.tables.retry_runs
        connection.execute(update(runs).where(runs.c.id == run_id).values(values))

    def _stop(self, connection: Connection, run: Run, now: datetime, command: Command, because: str) -> None:
        self._update(connection, run.id, state="stopped", next_at=None, ended_at=now, ended_because=because)
        self.audit.write(connection, command, "cause", run.cause, _told(run) | {"retried": run.retried})


def _new_run(asked: Asked, kind: str, now: datetime) -> Run:
    error_type, error_frame, name = asked.cause
    return Run(
        id=asked.run_id,
        cause=causes.cause_id(name, error_type, error_frame),
        name=name,
        error_type=error_type,
        error_frame=error_frame,
        queues=None if asked.queues is None else msgspec.json.encode(asked.queues).decode(),
        kind=kind,
        state="running",
        rate=None,
        wanted=0,
        retried=0,
        actor=asked.command.actor,
        reason=asked.command.reason,
        created_at=now,
        next_at=now,
        ended_at=None,
        ended_because=None,
    )


def _told(run: Run) -> dict[str, Any]:
    return {"name": run.name, "error_type": run.error_type, "error_frame": run.error_frame, "run": run.id}
