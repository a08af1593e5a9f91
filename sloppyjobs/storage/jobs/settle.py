"""The one place where an attempt is finished, guarded against being finished twice.

Rows are locked by primary key in id order, then the fence is compared: the job is still ``processing``, held by
this owner, under this attempt number. Whatever does not pass the fence is stale and changes nothing. The locks keep
writers from meeting; where a database has none, the update decides, which compares the fence once more.

A settlement that is retried because its answer was lost may find its own outcome. Then it is accepted, not stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, select

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.conflicts import all_changed
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.driver import cursor_of
from sloppyjobs.storage.jobs import counters, settlement_sql
from sloppyjobs.storage.jobs.followups import Edge, Followups, bits_of
from sloppyjobs.storage.jobs.held_rows import HeldRow, HeldRows
from sloppyjobs.storage.jobs.settlement_sql import as_json
from sloppyjobs.storage.jobs.unanswered import Unanswered
from sloppyjobs.storage.ports.claims import ClaimRequest
from sloppyjobs.storage.unavailable import StorageUnavailable

T = TypeVar("T")

_SUCCEEDED = (Status.SUCCEEDED,)


class Settle:
    """Settlement of attempts: any mixture of outcomes, set-based."""

    def __init__(self, database: Database, held_rows: HeldRows, followups: Followups, unanswered: Unanswered) -> None:
        self.database = database
        self.held_rows = held_rows
        self.followups = followups
        self.unanswered = unanswered

    def settle(self, settlements: Sequence[Settlement]) -> set[str]:
        """Write what was decided; returns the ids that were accepted. All others were stale."""
        if not settlements:
            return set()
        self.database.ensure_schema()
        return self.settling(settlements, lambda c, _rerun: self.settle_in(c, settlements))

    def settle_in(self, connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
        """The same inside a transaction that is open already."""
        ordered = sorted(settlements, key=lambda s: s.job_id)
        self.database.dialect.plan_by_index(connection)
        found = {row.id: row for row in self.held_rows.by_id(connection, [s.job_id for s in ordered])}
        accepted: dict[str, Settlement] = {}
        for settlement in ordered:
            if _passes(found.get(settlement.job_id), settlement):
                # Of two outcomes of one attempt in one batch, the first is the one.
                accepted.setdefault(settlement.job_id, settlement)
        if accepted:
            self._write(connection, list(accepted.values()), found)
        if len(accepted) == len(ordered):
            return set(accepted)
        lost = self.unanswered.take(settlement for settlement in ordered if settlement.job_id not in accepted)
        return {*accepted, *self._settled_before(connection, lost)} if lost else set(accepted)

    def settling(
        self,
        settlements: Sequence[Settlement],
        work: Callable[[Connection, bool], T],
        claim: ClaimRequest | None = None,
    ) -> T:
        """As ``Database.write``, for work that settles these or claims: what may be committed unheard is remembered.

        ``work`` is told whether an earlier run of it may have been committed.
        """
        rerun = False

        def once() -> T:
            nonlocal rerun
            try:
                return self.database.write_once(lambda connection: work(connection, rerun))
            except StorageUnavailable as error:
                if error.maybe_done:
                    rerun = True
                    self.unanswered.add(settlements)
                raise

        try:
            done = self.database.retry(once)
        except Exception:
            self.unanswered.add(settlements)
            if claim is not None:
                self.unanswered.add_claim(claim)
            raise
        self.unanswered.forget(settlements)
        return done

    def ends_of_attempts(self, connection: Connection, ids: Sequence[str]) -> dict[tuple[str, int], tuple[Any, ...]]:
        """How the attempts of these jobs ended: by which worker, in which status, and when, in the driver's form."""
        query = self.database.prepared("ends of attempts", self._ends_of_attempts)
        found = query.rows(cursor_of(connection), {"ids": self.database.dialect.list_param(ids)})
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in found}

    def _write(self, connection: Connection, passed: Sequence[Settlement], found: Mapping[str, HeldRow]) -> None:
        """Write what has passed the fence, all of it or nothing: ``Conflict`` where a row has changed since."""
        now = self.database.now(connection)
        cursor = cursor_of(connection)
        plain = [s for s in passed if s.decision.path == _SUCCEEDED]
        others = [s for s in passed if s.decision.path != _SUCCEEDED]
        if plain:
            self.write_successes(cursor, plain, now)
        if others:
            self._write_others(cursor, others, now)
        counters.count_settled(self.database, cursor, passed, found, now)
        flagged = [edge for s in passed if found[s.job_id].followups is not None for edge in _edges(s, found)]
        if flagged:
            self.followups.after(connection, flagged)

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """The jobs, attempts and events of attempts that went well; ``Conflict`` where a job is not held any more."""
        given = as_json([settlement_sql.success(s) for s in settled])
        values = {"given": given, "now": self.database.to_driver(now)}
        changed = settlement_sql.prepared(self.database, settlement_sql.succeed_jobs).run(cursor, values)
        all_changed(changed, len(settled))
        settlement_sql.prepared(self.database, settlement_sql.close_successes).run(cursor, values)
        settlement_sql.prepared(self.database, settlement_sql.record_successes).run(cursor, values)

    def _write_others(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        moment = self.database.to_driver(now)
        given = as_json([settlement_sql.other(s, now, self.database.to_driver) for s in settled])
        statement = settlement_sql.prepared(self.database, settlement_sql.settle_jobs)
        all_changed(statement.run(cursor, {"given": given, "now": moment}), len(settled))
        given = as_json([settlement_sql.ended(s) for s in settled])
        settlement_sql.prepared(self.database, settlement_sql.close_attempts).run(
            cursor, {"given": given, "now": moment}
        )
        settlement_sql.write_paths(self.database, cursor, settled, moment)

    def _settled_before(self, connection: Connection, doubtful: Sequence[Settlement]) -> set[str]:
        """The jobs whose outcome is that of these settlements, whose answers were lost."""
        ends = self.ends_of_attempts(connection, [one.job_id for one in doubtful])
        return {
            one.job_id
            for one in doubtful
            if ends.get((one.job_id, one.attempt), ())[:2] == (one.worker_id, one.decision.attempt.value)
        }

    def _ends_of_attempts(self) -> Select[Any]:
        c = self.database.tables.attempts.c
        query = select(c.job_id, c.attempt_number, c.worker_id, c.status, c.finished_at)
        return query.where(self.database.dialect.any_of(c.job_id, "ids"))


def _passes(row: HeldRow | None, settlement: Settlement) -> bool:
    return (
        row is not None
        and row.status == "processing"
        and row.owner == settlement.worker_id
        and row.attempt == settlement.attempt
    )


def _edges(settlement: Settlement, found: Mapping[str, HeldRow]) -> Iterable[Edge]:
    bits, source = bits_of(found[settlement.job_id].followups), Status.PROCESSING
    for target in settlement.decision.path:
        yield Edge(settlement.job_id, source, target, bits)
        source = target
