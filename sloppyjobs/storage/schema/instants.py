"""Instants in the database: one column type, UTC on every dialect, microseconds kept.

SQLite has no such type: there an instant is text of one fixed width, so that it sorts and compares as text.

A column may hold what Python has no ``datetime`` for: ``infinity`` and years beyond 9999 on PostgreSQL, any text on
SQLite. Such a value is read as ``EARLIEST`` or ``LATEST``, by how it sorts, so that one damaged row does not keep a
page or a sweep from reading its neighbours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Dialect, String, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

SQLITE_NOW = "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')"

# Some days inside of what Python can hold, because drivers answer in the session's zone.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)


def out_of_range(instant: datetime) -> bool:
    """Whether the instant stands for a value that is none."""
    return not EARLIEST < instant < LATEST


def to_text(instant: datetime) -> str:
    """An aware instant as SQLite stores it."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> datetime:
    """The instant that SQLite stored; shorter fractions, as other tools write them, are read too."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


class WithinRange(FunctionElement[Any]):
    """A column of instants, with those that the driver could not read replaced by the nearest that it can."""

    name = "within_range"
    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


@compiles(WithinRange)
def _as_it_is(element: WithinRange, compiler: Any, **kw: Any) -> str:
    shown: str = compiler.process(element.clauses, **kw)
    return shown


@compiles(WithinRange, "postgresql")
def _clamped(element: WithinRange, compiler: Any, **kw: Any) -> str:
    column = compiler.process(element.clauses, **kw)
    low, high = (f"'{bound.isoformat()}'::timestamptz" for bound in (EARLIEST, LATEST))
    return f"CASE WHEN {column} > {high} THEN {high} WHEN {column} < {low} THEN {low} ELSE {column} END"


class Later(FunctionElement[Any]):
    """An instant and a number of seconds, added by the database."""

    name = "later"
    inherit_cache = True

    def __init__(self, instant: ColumnElement[Any], seconds: ColumnElement[Any]) -> None:
        super().__init__(instant, seconds)
        self.type = instant.type


@compiles(Later, "sqlite")
def _later_as_text(element: Later, compiler: Any, **kw: Any) -> str:
    instant, seconds = (compiler.process(part, **kw) for part in element.clauses)
    return f"strftime('%Y-%m-%dT%H:%M:%f000Z', {instant}, {seconds} || ' seconds')"


@compiles(Later, "postgresql")
def _later_as_interval(element: Later, compiler: Any, **kw: Any) -> str:
    instant, seconds = (compiler.process(part, **kw) for part in element.clauses)
    return f"{instant} + {seconds} * interval '1 second'"


class Instant(TypeDecorator[datetime]):
    """An aware ``datetime`` in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text of 27 characters on SQLite, the zoned type elsewhere."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(27))
        return dialect.type_descriptor(DateTime(timezone=True))

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """How the column is selected."""
        return WithinRange(column)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """What the driver is given. What stands for a value out of range sorts where that does."""
        if value is None:
            return None
        if out_of_range(value):
            low, high = ("", "\U0010ffff") if dialect.name == "sqlite" else ("-infinity", "infinity")
            return low if value <= EARLIEST else high
        return to_text(value) if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """What the driver gave, as an aware instant."""
        if value is None:
            return None
        if isinstance(value, str):
            return _tolerant(value)
        if not isinstance(value, datetime):
            # SQLite sorts a BLOB after every text.
            return LATEST
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class _AsStored(Instant):
    """An instant in the driver's own form, so that reading a damaged one cannot fail."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return value

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return column


def as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column of instants without their conversion."""
    return type_coerce(WithinRange(column), _AsStored())


def _tolerant(text: str) -> datetime:
    try:
        return from_text(text)
    except (ValueError, OverflowError):
        return LATEST if text > "9" else EARLIEST
