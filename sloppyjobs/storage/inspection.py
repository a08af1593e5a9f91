"""Rows as the conformance suite sees them, and what it does to them behind the library's back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Column, Connection, Select, Table, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sloppyjobs.domain.batches import MemberState, Tally
from sloppyjobs.domain.states import Status
from sloppyjobs.storage.ports.alerts import AlertRecord
from sloppyjobs.storage.ports.deploys import DeployRow
from sloppyjobs.storage.ports.inspection import RowRefused
from sloppyjobs.storage.ports.records import (
    ArchiveRecord,
    AttemptRecord,
    BatchRecord,
    CounterRecord,
    DependencyRecord,
    EventRecord,
    JobRecord,
    LimitRecord,
    LockRecord,
    LogRecord,
    ParkedRecord,
    PermitRecord,
    QueueRecord,
    StepRecord,
    WorkerRecord,
)

if TYPE_CHECKING:
    from sloppyjobs.storage.store import SqlStore

R = TypeVar("R", bound=NamedTuple)


class SqlInspection:
    """The ``Inspection`` of a SQL database: every method is one plain statement."""

    def __init__(self, storage: SqlStore, connection: Connection | None = None) -> None:
        self._storage = storage
        self._connection = connection
        self._tables = storage.tables
        self.trailing_spaces = storage.dialect.trailing_spaces

    @contextmanager
    def in_one_transaction(self) -> Iterator[SqlInspection]:
        """An inspection whose reads share a connection and a transaction."""
        with self._connected() as connection:
            yield SqlInspection(self._storage, connection)

    def job(self, job_id: str) -> JobRecord:
        """The job with this id."""
        table = self._tables.jobs
        found = self._read(JobRecord, table, table.c.id, where=table.c.id == job_id)
        if not found:
            raise LookupError(job_id)
        return found[0]

    def jobs(self) -> list[JobRecord]:
        """Every job, by id."""
        return self._read(JobRecord, self._tables.jobs, self._tables.jobs.c.id)

    def attempts(self, job_id: str | None = None) -> list[AttemptRecord]:
        """Attempts by job and number."""
        table = self._tables.attempts
        where = None if job_id is None else table.c.job_id == job_id
        return self._read(AttemptRecord, table, table.c.job_id, table.c.attempt_number, where=where)

    def events(self, job_id: str | None = None) -> list[EventRecord]:
        """Events, oldest first."""
        table = self._tables.events
        where = None if job_id is None else table.c.job_id == job_id
        return self._read(EventRecord, table, table.c.id, where=where)

    def dependencies(self) -> list[DependencyRecord]:
        """Every dependency, by the job that waits."""
        table = self._tables.dependencies
        return self._read(DependencyRecord, table, table.c.child_id, table.c.parent_id)

    def limits(self) -> tuple[list[LimitRecord], list[PermitRecord], list[ParkedRecord]]:
        """Every limit by name, every permit that is held, and every job in a line."""
        limits, permits, parked = self._tables.limits, self._tables.permits, self._tables.parked
        return (
            self._read(LimitRecord, limits, limits.c.name),
            self._read(PermitRecord, permits, permits.c.resource, permits.c.partition_key, permits.c.slot),
            self._read(ParkedRecord, parked, parked.c.job_id),
        )

    def batches(self) -> list[BatchRecord]:
        """Every batch, by id."""
        batches, members, counts = self._tables.batches, self._tables.batch_members, self._tables.batch_counts
        columns = [batches.c[name] for name in BatchRecord._fields[: -len(Tally._fields) - 2]]
        sums = [func.sum(counts.c[name]) for name in Tally._fields]
        rows: dict[tuple[str, int], list[str]] = defaultdict(list)
        with self._connected() as connection:
            found = connection.execute(select(*columns).order_by(batches.c.id)).all()
            if not found:
                return []
            of_members = connection.execute(select(members.c.batch_id, members.c.state, members.c.job_id))
            for batch_id, state, job_id in of_members:
                rows[batch_id, state].append(job_id)
            numbers = connection.execute(select(counts.c.batch_id, *sums).group_by(counts.c.batch_id))
            tallies = {row[0]: tuple(map(int, row[1:])) for row in numbers}
        zero = (0,) * len(Tally._fields)
        return [
            BatchRecord(
                *row,
                *tallies.get(row.id, zero),
                *(tuple(sorted(rows[row.id, int(state)])) for state in (MemberState.OUTSTANDING, MemberState.DEAD)),
            )
            for row in found
        ]

    def queues(self) -> list[QueueRecord]:
        """Every queue, by name."""
        return self._read(QueueRecord, self._tables.queues, self._tables.queues.c.name)

    def locks(self) -> list[LockRecord]:
        """Every lock, by name."""
        return self._read(LockRecord, self._tables.locks, self._tables.locks.c.name)

    def workers(self) -> list[WorkerRecord]:
        """Every worker, by id."""
        return self._read(WorkerRecord, self._tables.workers, self._tables.workers.c.id)

    def logs(self) -> list[LogRecord]:
        """Every log line, oldest first."""
        return self._read(LogRecord, self._tables.logs, self._tables.logs.c.id)

    def steps(self) -> list[StepRecord]:
        """Every step, sleep and signal, by job."""
        table = self._tables.steps
        return self._read(StepRecord, table, table.c.job_id, table.c.place, table.c.kind, table.c.name)

    def counters(self) -> list[CounterRecord]:
        """The counters, by minute and shard."""
        table = self._tables.stats
        return self._read(CounterRecord, table, *table.primary_key)

    def archive(self) -> list[ArchiveRecord]:
        """Every archived job, by id."""
        table = self._tables.archive
        columns = [table.c[name] for name in (*JobRecord._fields, "archived_at", "history")]
        with self._connected() as connection:
            found = connection.execute(select(*columns).order_by(table.c.id)).all()
        return [ArchiveRecord(JobRecord(*row[:-2]), *row[-2:]) for row in found]

    def alerts(self) -> list[AlertRecord]:
        """Every alert, by rule, cause and window."""
        table = self._tables.alerts
        return self._read(AlertRecord, table, table.c.rule, table.c.cause, table.c.window_start)

    def deploys(self) -> list[DeployRow]:
        """Every deploy, by number."""
        return self._read(DeployRow, self._tables.deploys, self._tables.deploys.c.number)

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        names = {"job_stats": "counters", "recurring_jobs": "schedules"}
        tables = list(self._tables.metadata.tables.values())
        with self._connected() as connection:
            shown = connection.dialect.identifier_preparer.format_table
            each = ", ".join(f"(SELECT count(*) FROM {shown(table)})" for table in tables)
            numbers = connection.exec_driver_sql(f"SELECT {each}").one()
        plain = [table.name.removeprefix(self._tables.prefix) for table in tables]
        return {names.get(name, name.removeprefix("job_")): number for name, number in zip(plain, numbers, strict=True)}

    def add_jobs(self, jobs: Sequence[JobRecord]) -> None:
        """Write jobs as they are."""
        with _refusals(), self._storage.database.writing() as connection:
            connection.execute(insert(self._tables.jobs), [job._asdict() for job in jobs])

    def set_job(self, job_id: str, **values: Any) -> None:
        """Change a job's row."""
        self._set(self._tables.jobs, self._tables.jobs.c.id, job_id, values)

    def set_queue(self, name: str, **values: Any) -> None:
        """Change a queue's row."""
        self._set(self._tables.queues, self._tables.queues.c.name, name, values)

    def set_schedule(self, name: str, **values: Any) -> None:
        """Change a schedule's row."""
        self._set(self._tables.recurring, self._tables.recurring.c.name, name, values)

    def set_step(self, job_id: str, name: str, **values: Any) -> None:
        """Change a step of a job."""
        table = self._tables.steps
        self._set(table, table.c.name, name, values, table.c.job_id == job_id)

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self._storage.database.write(
            lambda connection: self._storage.commands.transition(connection, job_id, Status.CANCELLED)
        )

    def _connected(self) -> AbstractContextManager[Connection]:
        return self._storage.engine.connect() if self._connection is None else nullcontext(self._connection)

    def _read(self, record: type[R], table: Table, *order: Column[Any], where: Any = None) -> list[R]:
        query = _every(record, table, tuple(column.name for column in order))
        if where is not None:
            query = query.where(where)
        with self._connected() as connection:
            return [record(*row) for row in connection.execute(query)]

    def _set(self, table: Table, key: Column[Any], value: str, values: dict[str, Any], *where: Any) -> None:
        with _refusals(), self._storage.database.writing() as connection:
            changed = connection.execute(update(table).where(key == value, *where).values(values)).rowcount
        if changed != 1:
            raise LookupError(value)


@lru_cache(maxsize=64)
def _every(record: type[NamedTuple], table: Table, order: tuple[str, ...]) -> Select[Any]:
    """All rows. The suite reads many tables after each of its tests, and building a query takes longer than that."""
    return select(*(table.c[name] for name in record._fields)).order_by(*(table.c[name] for name in order))


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise RowRefused(str(error.orig)) from error
