"""Every text that may be encrypted, by table: what rotates keys reads and replaces them here, and knows no table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, or_, select, update

from sloppyjobs.domain.sealed import HEAD_LENGTH
from sloppyjobs.storage.database import Database
from sloppyjobs.storage.ports.sealed import RekeyDone, RekeyRecord, RowKey, SealedChange, SealedRow
from sloppyjobs.storage.reads.keyset import same_value
from sloppyjobs.storage.schema.tables import Tables

FORGOTTEN = timedelta(days=90)
"""For how long a run of ``rekey`` is remembered after it last moved."""


class Area(NamedTuple):
    """A table, its key, the column that names whom its texts are encrypted for, and those of the texts."""

    table: Table
    owner: str
    texts: tuple[str, ...]
    key: tuple[str, ...] = ("id",)


def areas(tables: Tables) -> Mapping[str, Area]:
    """Where texts are."""
    return {
        "jobs": Area(tables.jobs, "id", ("payload", "result")),
        "schedules": Area(tables.recurring, "name", ("payload",)),
        "steps": Area(tables.steps, "job_id", ("result",), ("job_id", "kind", "name")),
        "batches": Area(tables.batches, "id", ("callbacks",)),
        "logs": Area(tables.logs, "job_id", ("message", "fields")),
        "archive": Area(tables.archive, "id", ("payload", "result", "history")),
    }


class RekeyRuns:
    """How far runs of ``rekey`` are, so that one that has stopped half-way is seen."""

    database: Database

    def begin_run(self, run: RekeyRecord) -> None:
        """Write down that a run begins."""
        table = self.database.tables.rekeys

        def work(connection: Connection) -> None:
            connection.execute(delete(table).where(table.c.moved_at < run.started_at - FORGOTTEN))
            connection.execute(insert(table).values(run._asdict()))

        self.database.write(work)

    def advance_run(self, run_id: str, done: RekeyDone, *, finished: bool) -> None:
        """Write down that a run has moved."""
        table = self.database.tables.rekeys

        def work(connection: Connection) -> None:
            now = self.database.now(connection)
            values: dict[str, object] = {name: table.c[name] + number for name, number in done._asdict().items()}
            values |= {"moved_at": now, "finished_at": now if finished else None}
            connection.execute(update(table).where(table.c.id == run_id).values(values))

        self.database.write(work)

    def last_run(self) -> RekeyRecord | None:
        """The run that moved last."""
        c = self.database.tables.rekeys.c
        query = select(*(c[name] for name in RekeyRecord._fields)).order_by(c.moved_at.desc(), c.id.desc()).limit(1)
        found = self.database.read(lambda connection: connection.execute(query).first())
        return None if found is None else RekeyRecord(*found)


class SealedTexts(RekeyRuns):
    """Reads in the order of keys, a bounded number at a time; a write is conditional on what was read."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.dialect = database.dialect
        self._areas = areas(database.tables)

    def areas(self) -> Sequence[str]:
        """Their names."""
        return tuple(self._areas)

    def beginnings(self, area: str, after: RowKey | None, limit: int, *, backward: bool = False) -> list[SealedRow]:
        """The next rows in the order of their keys, with how their texts begin."""
        one = self._areas[area]
        starts = [self.dialect.text_start(one.table.c[name], HEAD_LENGTH) for name in one.texts]
        keys = [one.table.c[name] for name in one.key]
        query = select(*keys, one.table.c[one.owner].label("owner"), *starts)
        if after is not None:
            query = query.where(_beyond(keys, after))
        query = query.order_by(*(key.desc() if backward else key for key in keys)).limit(limit)
        return self.database.read(lambda c: [_row(one, row) for row in c.execute(query)])

    def texts(self, area: str, keys: Sequence[RowKey]) -> list[SealedRow]:
        """These rows with their whole texts."""
        one = self._areas[area]
        columns = [one.table.c[name] for name in (*one.key, one.owner, *one.texts)]
        query = select(*(column.label(f"c{place}") for place, column in enumerate(columns)))
        query = query.where(or_(*(_is(one, key) for key in keys)))
        return self.database.read(lambda c: [_row(one, row) for row in c.execute(query)]) if keys else []

    def replace(self, area: str, changes: Sequence[SealedChange]) -> int:
        """Write new texts in the order of keys, where the old ones are still there; how many rows it was."""
        one = self._areas[area]

        def work(connection: Connection) -> int:
            changed = 0
            for change in sorted(changes, key=lambda given: given.key):
                same = [same_value(one.table.c[name], text) for name, text in change.old.items()]
                written = update(one.table).where(_is(one, change.key), *same).values(change.new)
                changed += connection.execute(written).rowcount
            return changed

        return self.database.write(work) if changes else 0

    def count(self, area: str) -> int:
        """How many rows there are."""
        query = select(func.count()).select_from(self._areas[area].table)
        return self.database.read(lambda c: int(c.execute(query).scalar_one()))


def _is(area: Area, key: RowKey) -> ColumnElement[bool]:
    return and_(*(area.table.c[name] == value for name, value in zip(area.key, key, strict=True)))


def _beyond(keys: Sequence[ColumnElement[object]], after: RowKey) -> ColumnElement[bool]:
    """Keys that come after one; the first condition is what an index is searched by."""
    condition: ColumnElement[bool] | None = None
    for column, value in reversed(list(zip(keys, after, strict=True))):
        greater: ColumnElement[bool] = column > value
        condition = greater if condition is None else or_(greater, and_(column == value, condition))
    assert condition is not None
    return condition if len(keys) == 1 else and_(keys[0] >= after[0], condition)


def _row(area: Area, row: Sequence[object]) -> SealedRow:
    number = len(area.key)
    texts = dict(zip(area.texts, row[number + 1 :], strict=True))
    return SealedRow(tuple(row[:number]), str(row[number]), texts)  # type: ignore[arg-type]
