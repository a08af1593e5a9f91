"""The rows of alerts. Whoever raises one writes to the row of its rule first, and looks whether a window still runs.

The job that delivers an alert is written in the same transaction. So an alert is never raised twice, however many
evaluate the rules, and never lost when one of them dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, insert, literal_column, or_, select, update
from sqlalchemy.exc import DBAPIError

from sloppyjobs.domain.alerts import MUTED, Death
from sloppyjobs.domain.model import NewJob
from sloppyjobs.domain.states import FINISHED, Status
from sloppyjobs.domain.stored_words import status_or_none
from sloppyjobs.storage.admin.audit import Audit
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.jobs.insert import Insert
from sloppyjobs.storage.ports.alerts import AlertRecord, AlertRow, RuleRecord
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.reads import Key
from sloppyjobs.storage.reads.keyset import Filter, Keyset, Scan, beyond_rows, scan_after

CHUNK = 500
_MUTE = ("muted_at", "muted_until", "muted_by", "mute_reason")
_RULE = ("watch", "target", "job_name", "queue")


class Alerts:
    """Rules and alerts."""

    def __init__(self, database: Database, keyset: Keyset, audit: Audit, inserts: Insert) -> None:
        self.database = database
        self.dialect = database.dialect
        self.tables = database.tables
        self.keyset = keyset
        self.audit = audit
        self.inserts = inserts

    # Rules

    def declare(self, rules: Sequence[RuleRecord]) -> None:
        """Write these rules, and that they were seen now."""
        self.database.ensure_schema()
        for rule in sorted(rules):
            self.database.write(lambda c, rule=rule: self._declare(c, rule))  # type: ignore[misc]

    def _declare(self, connection: Connection, rule: RuleRecord) -> None:
        table = self.tables.alert_rules
        values = {**{name: getattr(rule, name) for name in _RULE}, "seen_at": self.database.now(connection)}
        known = update(table).where(table.c.name == rule.name).values(values)
        if connection.execute(known).rowcount == 0 and not self._inserted(
            connection, table, {"name": rule.name, **values}
        ):
            connection.execute(known)

    def known(self) -> dict[str, RuleRecord]:
        """The rules that were ever declared, without their last alerts."""
        self.database.ensure_schema()
        query = self._select_rules().limit(10_000)
        return self.database.read(lambda c: {row.name: RuleRecord(*row) for row in c.execute(query)})

    def _select_rules(self) -> Select[Any]:
        return select(*(self.tables.alert_rules.c[name] for name in RuleRecord._fields[:-1]))

    def mute(self, rule: str, muted: bool, until: datetime | None, command: Command) -> bool:
        """Mute a rule, or end that."""
        self.database.ensure_schema()
        table = self.tables.alert_rules

        def work(connection: Connection) -> bool:
            now = self.database.now(connection)
            found = connection.execute(self.dialect.locked(self._select_rules().where(table.c.name == rule))).first()
            if found is None:
                return False
            was = RuleRecord(*found)
            if was.is_muted(now) is muted and (not muted or was.muted_until == until):
                return True
            said = (now, until, command.actor, command.reason) if muted else (None,) * len(_MUTE)
            values = dict(zip(_MUTE, said, strict=True))
            connection.execute(update(table).where(table.c.name == rule).values(values))
            detail = {"until": until.isoformat()} if until is not None else {}
            self.audit.write(connection, command, "alert", rule, detail)
            return True

        return self.database.write(work)

    def rules(self, limit: int) -> list[RuleRecord]:
        """The rules that were ever declared, by name, with their last alerts."""
        self.database.ensure_schema()
        alerts = self.tables.alerts
        query = self._select_rules().order_by(self.tables.alert_rules.c.name).limit(limit)

        def work(connection: Connection) -> list[RuleRecord]:
            found = [RuleRecord(*row) for row in self.database.bounded(connection).execute(query)]
            latest = [
                select(alerts.c.created_at)
                .where(alerts.c.rule == rule.name)
                .order_by(alerts.c.rule.desc(), alerts.c.created_at.desc())
                .limit(1)
                for rule in found
            ]
            last = self.keyset.each(connection, latest) if latest else []
            return [
                rule._replace(last_alert_at=rows[0][0] if rows else None)
                for rule, rows in zip(found, last, strict=True)
            ]

        return self.database.read(work)

    # Raising

    def deaths(self, since: datetime, queue: str | None, name: str | None, besides: str, limit: int) -> list[Death]:
        """Jobs that died at or after an instant and are dead; bounded, latest created first."""
        self.database.ensure_schema()
        c = self.tables.jobs.c
        filters: list[Filter] = [
            (c.finished_at, lambda given: given >= since),
            (c.name, lambda given: given != besides),
        ]
        if queue is not None:
            filters.append((c.queue, lambda given: given == queue))
        if name is not None:
            filters.append((c.name.label("job_name"), lambda given: given == name))
        dead: ColumnElement[bool] = literal_column(self.tables.style.in_list(Status.DEAD))
        scan = Scan((dead,), (c.created_at, c.id), tuple(filters))

        def work(connection: Connection) -> list[Death]:
            bounded = self.database.bounded(connection)
            page = self.keyset.read(bounded, [scan], after=None, descending=True, limit=limit)
            return self._deaths(bounded, [key[-1] for key in page.found])

        return self.database.read(work)

    def _deaths(self, connection: Connection, ids: Sequence[str]) -> list[Death]:
        c = self.tables.jobs.c
        columns = (c.id, c.queue, c.name, c.error_type, c.error_frame, c.error_message, c.finished_at)
        found: list[Death] = []
        for start in range(0, len(ids), CHUNK):
            query = select(*columns).where(c.id.in_(ids[start : start + CHUNK]), c.status == Status.DEAD.value)
            found += [Death(*row) for row in connection.execute(query) if row.finished_at is not None]
        return found

    def last(self, rule: str, causes: Sequence[str], *, muted: bool) -> dict[str, datetime]:
        """When the window of a rule's last alert began, of those of these causes that have had one."""
        self.database.ensure_schema()
        c = self.tables.alerts.c
        latest = [
            select(c.window_start)
            .where(c.rule == rule, c.cause == cause, *(() if muted else (c.state != MUTED,)))
            .order_by(c.rule.desc(), c.cause.desc(), c.window_start.desc())
            .limit(1)
            for cause in causes
        ]
        found = self.database.read(lambda connection: self.keyset.each(connection, latest)) if latest else []
        return {cause: rows[0][0] for cause, rows in zip(causes, found, strict=True) if rows}

    def raise_alert(self, alert: AlertRecord, job: NewJob, command: Command | None = None) -> bool:
        """Write an alert and the job that delivers it, in one transaction."""
        self.database.ensure_schema()
        return self.database.write(lambda c: self._raise(c, alert, job, command))

    def _raise(self, connection: Connection, alert: AlertRecord, job: NewJob, command: Command | None) -> bool:
        now = self.database.now(connection)
        # A test that somebody sends is meant to be told.
        muted = command is None and self._lock_rule(connection, alert.rule, now)
        if command is None and self._is_quiet(connection, alert, muted=muted):
            return False
        values = {**alert._asdict(), "created_at": now}
        if muted:
            values |= {"state": MUTED, "ended_at": now}
        if not self._inserted(connection, self.tables.alerts, values):
            return False
        if muted:
            return True
        self.inserts.insert_all(connection, [job], rerun=True)
        if command is not None:
            self.audit.write(connection, command, "alert", alert.rule, {"job": job.id})
        return True

    def _lock_rule(self, connection: Connection, rule: str, now: datetime) -> bool:
        """Whether the rule is muted.

        The write comes first, and is the lock: of those who raise alerts of one rule, each sees what the others wrote.
        """
        rules = self.tables.alert_rules
        connection.execute(update(rules).where(rules.c.name == rule).values(name=rule))
        found = connection.execute(self._select_rules().where(rules.c.name == rule)).first()
        return found is not None and RuleRecord(*found).is_muted(now)

    def _is_quiet(self, connection: Connection, alert: AlertRecord, *, muted: bool) -> bool:
        """Whether the cause was told of within the window; of a rule that is muted, whether it was found."""
        c = self.tables.alerts.c
        since = alert.window_start - timedelta(seconds=alert.window_seconds)
        query = select(c.job_id).where(c.rule == alert.rule, c.cause == alert.cause, c.window_start > since).limit(1)
        if not muted:
            query = query.where(c.state != MUTED)
        return connection.execute(query).first() is not None

    def _inserted(self, connection: Connection, table: Any, values: dict[str, Any]) -> bool:
        """Whether the row was written; False where somebody was faster."""
        self.dialect.ensure_begun(connection)
        try:
            with connection.begin_nested(), self.database.translating(connection):
                connection.execute(insert(table).values(values))
        except DBAPIError as error:
            if not self.dialect.is_duplicate(error):
                raise
            return False
        return True

    # What became of them

    def settle(self, limit: int) -> int:
        """Write down what became of the deliveries that have ended."""
        self.database.ensure_schema()
        alerts, jobs = self.tables.alerts, self.tables.jobs
        ended = [status.value for status in FINISHED]
        unsettled = or_(alerts.c.state == "pending", jobs.c.status == Status.SUCCEEDED.value)
        query = (
            select(alerts.c.job_id, jobs.c.status, jobs.c.finished_at, jobs.c.attempt_count, jobs.c.error_message)
            .join_from(alerts, jobs, jobs.c.id == alerts.c.job_id)
            .where(alerts.c.state.in_(("pending", "failed")), unsettled, jobs.c.status.in_(ended))
            .order_by(alerts.c.created_at.desc())
            .limit(limit)
        )
        found = self.database.read(lambda c: c.execute(query).all())
        for row in found:
            state = "told" if row.status == Status.SUCCEEDED.value else "failed"
            values = {"state": state, "ended_at": row.finished_at, "tries": row.attempt_count}
            values["error"] = None if state == "told" else row.error_message
            settle = update(alerts).where(alerts.c.job_id == row.job_id).values(values)
            self.database.write(lambda c, settle=settle: c.execute(settle))  # type: ignore[misc]
        return len(found)

    def page(self, rule: str | None, after: Key | None, *, backward: bool, limit: int) -> list[AlertRow]:
        """Alerts beyond a key, latest first or backward."""
        self.database.ensure_schema()
        alerts, jobs = self.tables.alerts, self.tables.jobs
        columns = [alerts.c[name] for name in AlertRecord._fields]
        of_job = ("status", "attempt_count", "error_message", "finished_at")
        live = [jobs.c[name].label(f"job_{name}") for name in of_job]
        query = select(*columns, *live).select_from(alerts.outerjoin(jobs, jobs.c.id == alerts.c.job_id))
        where = () if rule is None else (alerts.c.rule == rule,)
        prefix = () if rule is None else (alerts.c.rule,)
        scan = Scan(where, (alerts.c.created_at, alerts.c.job_id), prefix=prefix)
        narrowed = scan_after(self.dialect, query, scan, after, not backward)

        def read(asked: int) -> Sequence[Any]:
            return self.database.read(lambda c: self.database.bounded(c).execute(narrowed.limit(asked)).all())

        found = beyond_rows(read, lambda row: (row.created_at, row.job_id), after, not backward, limit)
        return [_row(row) for row in found]

    def remove(self, before: datetime, limit: int) -> int:
        """Remove alerts from before an instant."""
        alerts = self.tables.alerts
        query = select(alerts.c.job_id).where(alerts.c.created_at < before).order_by(alerts.c.created_at).limit(limit)

        def work(connection: Connection) -> int:
            gone = list(connection.execute(self.dialect.locked(query, skip=True)).scalars())
            chunks = [gone[start : start + CHUNK] for start in range(0, len(gone), CHUNK)]
            return sum(connection.execute(delete(alerts).where(alerts.c.job_id.in_(ids))).rowcount for ids in chunks)

        return self.database.write(work)


def _row(row: Any) -> AlertRow:
    own = len(AlertRecord._fields)
    status, tries, error, finished = row[own:]
    return AlertRow(AlertRecord(*row[:own]), status_or_none(status), tries, error, finished)
