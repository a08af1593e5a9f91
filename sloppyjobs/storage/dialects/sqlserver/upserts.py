"""Inserts of rows that may exist: the unique index decides, and its refusal is caught where it is raised.

A lock of the missing key (``HOLDLOCK``) would make writers of neighbouring keys deadlock, and ``MERGE`` needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Insert,
    Table,
    Update,
    bindparam,
    case,
    exists,
    insert,
    literal_column,
    select,
)
from sqlalchemy.ext.compiler import compiles

from sloppyjobs.storage.dialects.sqlserver.null_values import PreparedWithoutNulls

_UNLESS_DUPLICATE = "IF ERROR_NUMBER() NOT IN (2601, 2627) OR XACT_STATE() = -1 THROW;"
"""A transaction that can only be rolled back is not gone on with."""


_GIVEN = "given_"
"""Begins the names of parameters: SQLAlchemy keeps those of columns for itself in an update."""


class InsertIfAbsent(Insert):
    """An insert that leaves an existing row as it is, also one that another transaction is about to commit."""

    inherit_cache = True
    counted: CountedInsert


class CountedInsert(Insert):
    """The same, which answers with a row that says how many it has written."""

    inherit_cache = True


class Upsert(Update):
    """An update, or an insert where there is nothing to update; whoever loses a race of inserts updates."""

    inherit_cache = False
    add: Insert


@compiles(InsertIfAbsent)
def _insert_if_absent(element: InsertIfAbsent, compiler: Any, **kw: Any) -> str:
    return _unless_duplicate(compiler.visit_insert(element, **kw))


@compiles(CountedInsert)
def _counted_insert(element: CountedInsert, compiler: Any, **kw: Any) -> str:
    written = _unless_duplicate(f"{compiler.visit_insert(element, **kw)}; SET @written = @@ROWCOUNT")
    return f"DECLARE @written int = 0; {written}; SELECT @written AS written"


@compiles(Upsert)
def _upsert(element: Upsert, compiler: Any, **kw: Any) -> str:
    change, add, again = (
        compiler.visit_update(element, **kw),
        compiler.visit_insert(element.add, **kw),
        # Once more, because each of its parameters has a place of its own.
        compiler.visit_update(element, **kw),
    )
    attempt = _unless_duplicate(add, again)
    return f"{change}; IF @@ROWCOUNT = 0 BEGIN {attempt} END"


def _unless_duplicate(attempt: str, otherwise: str = "") -> str:
    return f"BEGIN TRY {attempt} END TRY BEGIN CATCH {_UNLESS_DUPLICATE} {otherwise} END CATCH"


class PreparedInsert(PreparedWithoutNulls):
    """An insert of a row that may exist. pymssql counts no rows of a text that is more than one statement."""

    def run(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """Execute, and return how many rows were written."""
        written: int = self.rows(cursor, values)[0][0]
        return written


class PreparedUpsert(PreparedWithoutNulls):
    """An upsert of a row with these values."""

    def bind(self, values: Mapping[str, Any]) -> Any:
        """Under the names of its parameters."""
        return super().bind({f"{_GIVEN}{name}": value for name, value in values.items()})


def insert_if_absent(table: Table, names: Sequence[str]) -> InsertIfAbsent:
    """An insert of these columns."""
    given = {name: bindparam(name, type_=table.c[name].type) for name in names}
    same = (column == given[column.name] for column in table.primary_key.columns)
    known = exists(select(literal_column("1")).select_from(table).where(*same))
    values = select(*(value.label(name) for name, value in given.items())).where(~known)
    statement = InsertIfAbsent(table).from_select(list(names), values)
    statement.counted = CountedInsert(table).from_select(list(names), values)
    return statement


def count_up(stats: Table) -> Upsert:
    """Add to the counters of a minute."""
    counters = ("succeeded", "failed", "dead", "cancelled", "run_seconds")
    added = {name: stats.c[name] + _given(stats.c[name]) for name in counters}
    return _upsert_of(stats, ("minute", "queue", "name", "shard"), added, counters)


def add_deaths(deaths: Table) -> Upsert:
    """Add to the deaths of an hour."""
    c = deaths.c
    first, last = _given(c.first_at), _given(c.last_at)
    added = {
        "deaths": c.deaths + _given(c.deaths),
        "first_at": case((first < c.first_at, first), else_=c.first_at),
        "last_at": case((last > c.last_at, last), else_=c.last_at),
    }
    others = ("name", "error_type", "error_frame", "deaths", "first_at", "last_at")
    return _upsert_of(deaths, ("cause", "queue", "hour"), added, others)


def _upsert_of(table: Table, keys: Sequence[str], added: Mapping[str, Any], others: Sequence[str]) -> Upsert:
    upsert = Upsert(table).where(*(table.c[key] == _given(table.c[key]) for key in keys)).values(added)
    upsert.add = insert(table).values({name: _given(table.c[name]) for name in (*keys, *others)})
    return upsert


def _given(column: Column[Any]) -> Any:
    return bindparam(f"{_GIVEN}{column.name}", type_=column.type)
