"""Settlement on SQLite: what ended alike is settled by statements of its own, and mostly without reading its rows.

What differs between jobs travels as one JSON object, by their ids; what they share is bound once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from sloppyjobs.domain.model import Settlement
from sloppyjobs.domain.states import FINISHED, Failure, Status
from sloppyjobs.storage.dialects.sqlite import statements
from sloppyjobs.storage.driver import all_changed, cursor_of
from sloppyjobs.storage.jobs.followups import Edge, bits_of
from sloppyjobs.storage.jobs.settle import Settle, count_plain, edges_taken, is_success
from sloppyjobs.storage.jobs.settlement_sql import as_json, edges_of

FEW_KINDS, FEWEST_OF_A_KIND = 4, 8
"""So many kinds of failures have statements of their own, and more where so many jobs on average failed alike."""

Groups = Iterable[Sequence[Settlement]]


class SqliteSettle(Settle):
    """Attempts that ended alike are settled without a join, and mostly without reading the rows of their jobs."""

    @cached_property
    def _sql(self) -> statements.Statements:
        return statements.statements(self.database.tables)

    def settle_in(self, connection: Connection, settlements: Sequence[Settlement]) -> set[str]:
        """The updates compare the fence, and what hangs on each job with what its claim said.

        Where they change fewer rows they are undone, and the rows are looked at first.
        """
        ids = {one.job_id for one in settlements}
        failed = _failures(settlements)
        known = [one for group in failed for one in group] + [one for one in settlements if is_success(one)]
        if not known or len(ids) < len(settlements) or not self._settle_unread(connection, known, failed):
            return super().settle_in(connection, settlements)
        if len(known) == len(settlements):
            return ids
        unread = {one.job_id for one in known}
        return unread | super().settle_in(connection, [one for one in settlements if one.job_id not in unread])

    def _settle_unread(self, connection: Connection, known: Sequence[Settlement], failed: Groups) -> bool:
        """All of them, or none; those that failed are given in groups as well."""
        cursor, now = cursor_of(connection), self.database.now(connection)
        cursor.execute("SAVEPOINT unread")
        succeeded = _alike(filter(is_success, known), _holder)
        all_held = all(self._succeed(cursor, group, now, unread=True) == len(group) for group in succeeded)
        if not all_held or not all(self._fail(cursor, group, now) for group in failed):
            cursor.execute("ROLLBACK TO SAVEPOINT unread")
            return False
        count_plain(self.database, cursor, known, now)
        flagged = [_success(one) for group in succeeded for one in group if group[0].followups is not None]
        flagged += [edge for group in failed for one in group if one.followups is not None for edge in _edges(one)]
        if flagged:
            self.followups.after(connection, flagged)
        return True

    def write_successes(self, cursor: Any, settled: Sequence[Settlement], now: datetime) -> None:
        """Three statements for each worker and number of attempt."""
        for group in _alike(settled, _holder):
            all_changed(self._succeed(cursor, group, now, unread=False), len(group))

    def _succeed(self, cursor: Any, group: Sequence[Settlement], now: datetime, *, unread: bool) -> int:
        """Settle a group; how many jobs were changed. Nothing but jobs is written where some were not."""
        values = {"ids": as_json([one.job_id for one in group]), **_held(group), "now": self.database.to_driver(now)}
        results = {one.job_id: one.decision.result for one in group}
        any_result = any(result is not None for result in results.values())
        if any_result:
            values["results"] = as_json(results)
        changed: int = cursor.execute(self._sql.succeed[any_result, unread], values).rowcount
        if changed == len(group):
            values["times"] = as_json({one.job_id: one.run_seconds for one in group})
            cursor.execute(self._sql.close_attempts, values)
            cursor.execute(self._sql.record_successes, values)
        return changed

    def _fail(self, cursor: Any, group: Sequence[Settlement], now: datetime) -> bool:
        """Settle jobs that failed alike, all of them; or write nothing but some jobs."""
        decision, sql = group[0].decision, self._sql
        moments = self._due_moments(group, now)
        apart = len(moments) > 1
        given: dict[str, Any] = {one.job_id: _failure(one).message for one in group}
        if apart:
            given = {one.job_id: (given[one.job_id], moments[one.decision.delay]) for one in group}
        moment = self.database.to_driver(now)
        values = {
            **_held(group),
            **_shared(_failure(group[0])),
            "given": as_json(given),
            "due": None if apart else moments[decision.delay],
            "now": moment,
            "last": decision.path[-1].value,
            "finished": moment if decision.path[-1] in FINISHED else None,
            "extra": int(not decision.counts),
            "ended": decision.attempt.value,
        }
        if cursor.execute(sql.fail[apart], values).rowcount < len(group):
            return False
        beginning, endings = _endings(group)
        cursor.execute(sql.fail_attempts, {**values, "beginning": beginning, "endings": as_json(endings)})
        # Edge by edge: a job's events must be numbered in their order.
        record = sql.record_failures[apart]
        for event, source, target in edges_of(decision.path):
            cursor.execute(record, {**values, "event": event, "source": source, "target": target})
            record = sql.record_edges
        return True

    def _due_moments(self, group: Sequence[Settlement], now: datetime) -> dict[float, Any]:
        """When jobs with these delays are due again, in the driver's form; None leaves their run times alone."""
        delays = {one.decision.delay for one in group}
        if not group[0].decision.retries:
            return dict.fromkeys(delays)
        return {delay: self.database.to_driver(now + timedelta(seconds=delay)) for delay in delays}


def _alike(settled: Iterable[Settlement], key: Callable[[Settlement], Any]) -> list[list[Settlement]]:
    """In groups of the same key."""
    groups: dict[Any, list[Settlement]] = defaultdict(list)
    for one in settled:
        groups[key(one)].append(one)
    return list(groups.values())


def _holder(one: Settlement) -> tuple[Any, ...]:
    """Jobs of one worker and number of attempt, on which the same hung when they were claimed."""
    return one.worker_id, one.attempt, one.followups


def _kind(one: Settlement) -> tuple[Any, ...]:
    """What is shared by jobs that failed alike."""
    decision, failure = one.decision, _failure(one)
    how = (decision.path, decision.attempt, decision.counts)
    return (*_holder(one), *how, failure.code, failure.type, failure.frame, failure.traceback is None)


def _failures(settlements: Sequence[Settlement]) -> list[list[Settlement]]:
    """Those that failed and whose claims said what is to be known, by kind; none where they failed in too many ways."""
    failed = [one for one in settlements if one.decision.failure is not None and one.lane is not None]
    kinds = _alike(failed, _kind)
    return kinds if len(kinds) <= max(FEW_KINDS, len(failed) // FEWEST_OF_A_KIND) else []


def _failure(one: Settlement) -> Failure:
    assert one.decision.failure is not None
    return one.decision.failure


def _held(group: Sequence[Settlement]) -> dict[str, Any]:
    """The fence of a group, and what hung on its jobs."""
    return {"worker": group[0].worker_id, "attempt": group[0].attempt, "followups": group[0].followups}


def _shared(failure: Failure) -> dict[str, Any]:
    return {"code": failure.code, "type": failure.type, "frame": failure.frame}


def _endings(group: Sequence[Settlement]) -> tuple[str | None, Mapping[str, tuple[Any, ...]]]:
    """How tracebacks begin, and of each attempt: its time, its message, and its traceback where that is another."""
    first = _failure(group[0])
    beginning = None
    if first.traceback is not None and first.traceback.endswith(f"{first.message}\n"):
        beginning = first.traceback[: -len(first.message) - 1]
    endings = {}
    for one in group:
        failure = _failure(one)
        same = beginning is not None and failure.traceback == f"{beginning}{failure.message}\n"
        endings[one.job_id] = (one.run_seconds, failure.message, None if same else failure.traceback)
    return beginning, endings


def _success(one: Settlement) -> Edge:
    return Edge(one.job_id, Status.PROCESSING, Status.SUCCEEDED, bits_of(one.followups))


def _edges(one: Settlement) -> Iterable[Edge]:
    return edges_taken(one, bits_of(one.followups))
