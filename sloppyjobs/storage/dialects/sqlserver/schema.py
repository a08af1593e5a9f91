"""Columns and indexes of SQL Server.

Text is stored in UTF-16 and compared by its code units. Instants have no zone there: all are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import CheckConstraint, ColumnElement, cast, text
from sqlalchemy.dialects.mssql import DATETIME2, NVARCHAR
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.schema.style import EARLIEST, LATEST, ColumnTypes, IndexForm, TableStyle, nearest, out_of_range

COLLATION = "Latin1_General_100_BIN2"
"""Case and accents matter, and the order is that of the code units."""
LONGEST_KEY = 450
"""Code units of 900 bytes: the most for a key by which the rows of a table are ordered."""


def to_text(instant: datetime) -> str:
    """An aware instant as drivers take it: by text none of them cuts the microseconds off."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def _as_text(value: Any) -> Any:
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


class UtcInstant(DATETIME2):
    """An instant that is passed as text, and converted where it is passed."""

    def __init__(self) -> None:
        super().__init__(precision=6)  # type: ignore[no-untyped-call]

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        """Converted by the server, because a text alone has no type there."""
        return cast(bindvalue, DATETIME2(6))  # type: ignore[no-untyped-call]

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:  # noqa: ARG002
        """As text, also what was read before and is compared with what is stored."""
        return _as_text

    def result_processor(self, dialect: Any, coltype: Any) -> None:  # noqa: ARG002
        """As the driver gives it."""
        return


class SqlServerTypes(ColumnTypes):
    """Types of columns."""

    def text(self, length: int) -> TypeEngine[Any]:
        """A binary collation, and two code units for each character, which some characters need."""
        return NVARCHAR(min(2 * length, LONGEST_KEY), collation=COLLATION)

    def short_text(self, length: int) -> TypeEngine[Any]:
        """As all text."""
        return self.text(length)

    def long_text(self) -> TypeEngine[Any]:
        """``nvarchar(max)``."""
        return NVARCHAR(None, collation=COLLATION)

    def instant(self) -> TypeEngine[Any]:
        """``datetime2(6)``, in UTC."""
        return UtcInstant()

    def instant_to_driver(self, value: datetime) -> str:
        """Text; what is out of range is the first or the last day there is."""
        if out_of_range(value):
            return "0001-01-01T00:00:00.000000" if value <= EARLIEST else "9999-12-31T23:59:59.999999"
        return to_text(value)

    def instant_from_driver(self, value: Any) -> datetime:
        """An instant without a zone, or its text; the days at both ends stand for what is out of range."""
        if isinstance(value, str):
            value = nearest(value if value.endswith("Z") else f"{value}Z")
        found = super().instant_from_driver(value)
        return min(max(found, EARLIEST), LATEST)

    def later(self, instant: str, seconds: str) -> str:
        """Whole minutes, then the rest: ``DATEADD`` takes an integer of 32 bits, which are 68 years of seconds."""
        minutes = f"FLOOR({seconds} / 60)"
        whole = f"DATEADD(minute, CAST({minutes} AS int), {instant})"
        return f"DATEADD(microsecond, CAST(({seconds} - 60 * {minutes}) * 1000000 AS int), {whole})"


class SqlServerStyle(TableStyle):
    """Form of tables."""

    events_by_job = True
    # The rows of a table are ordered by its primary key, unless said otherwise; a key that orders rows has at most 900
    # bytes, another one 1,700.
    long_key: ClassVar = {"mssql_clustered": False}

    def partial_index(self, columns: tuple[str, ...], where: str, *, distinct: bool = False) -> IndexForm:  # noqa: ARG002
        """A filtered index."""
        return IndexForm(columns, {"mssql_where": text(where)})

    def own_columns(self, table: str) -> tuple[SchemaItem, ...]:
        """Payloads are JSON. In a list, because before SQL Server 2022 a number or a text alone is none."""
        if table not in ("jobs", "recurring_jobs"):
            return ()
        return (CheckConstraint(text("ISJSON(CONCAT('[', payload, ']')) = 1")),)

    def is_false(self, column: str) -> str:
        """A comparison: a column alone is no condition."""
        return f"{column} = 0"

    @property
    def ended_members(self) -> str:
        """As where an index may have any predicate."""
        return self._ended_members()

    @property
    def settled_list(self) -> str:
        """Comparisons: the predicate of an index has no ``NOT IN``."""
        return "status <> 'queued' AND status <> 'processing'"


TYPES = SqlServerTypes()
STYLE = SqlServerStyle()
