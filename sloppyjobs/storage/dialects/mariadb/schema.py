"""Columns and indexes of MariaDB and MySQL.

There are no partial indexes. A generated column is 1 in the rows that such an index would hold and null in all others,
and leads the index; queries ask for it where they would repeat the predicate. A job that changes its status moves only
in the indexes whose column changes.

A row that grows does not fit where it lies: InnoDB reorganizes its page, or splits it. So rows have room for what will
be written into them, by a generated column that is null from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import Column, Computed, SmallInteger, String
from sqlalchemy.dialects.mysql import DATETIME, DOUBLE, LONGTEXT
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from sloppyjobs.domain.states import Status
from sloppyjobs.storage.schema.style import EARLIEST, LATEST, ColumnTypes, IndexForm, TableStyle, nearest

NAMES = ("mysql", "mariadb")
"""SQLAlchemy's names for the two."""


class ByteString(String):
    """Text that is compared byte by byte, also in its last spaces: the collation has another name on each server."""

    __visit_name__ = "sloppy_byte_string"


class LongByteString(LONGTEXT):
    """Text of any length; of the same collation, or it could not be in one expression with other texts."""

    __visit_name__ = "sloppy_long_byte_string"


@compiles(ByteString, *NAMES)
def _byte_string(kind: ByteString, compiler: Any, **_options: Any) -> str:
    return f"VARCHAR({kind.length}) CHARACTER SET utf8mb4 {_collate(compiler.dialect)}"


@compiles(LongByteString, *NAMES)
def _long_byte_string(_kind: LongByteString, compiler: Any, **_options: Any) -> str:
    return f"LONGTEXT CHARACTER SET utf8mb4 {_collate(compiler.dialect)}"


def _collate(dialect: Any) -> str:
    if dialect.is_mariadb:
        return "COLLATE utf8mb4_nopad_bin"
    if getattr(dialect, "server_version_info", None):
        return "COLLATE utf8mb4_0900_bin"
    # Printed without a connection: each server executes the comment that is written for it.
    return "/*!80000 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */"


class MariaDbTypes(ColumnTypes):
    """Types of columns."""

    def text(self, length: int) -> TypeEngine[Any]:
        """The collation that compares byte by byte."""
        return ByteString(length)

    def short_text(self, length: int) -> TypeEngine[Any]:
        """As ``text``: all texts have one collation."""
        return ByteString(length)

    def long_text(self) -> TypeEngine[Any]:
        """``TEXT`` ends at 64 KiB."""
        return LongByteString()

    def number(self) -> TypeEngine[Any]:
        """``FLOAT`` has six digits."""
        return DOUBLE(asdecimal=False)

    def instant(self) -> TypeEngine[Any]:
        """In UTC, without a zone; a ``TIMESTAMP`` would end in 2038."""
        return DATETIME(fsp=6)

    def instant_to_driver(self, value: datetime) -> datetime:
        """Without a zone."""
        return min(max(value, EARLIEST), LATEST).astimezone(UTC).replace(tzinfo=None)

    def instant_from_driver(self, value: Any) -> datetime:
        """Drivers answer with text where Python has no such day, as for 0000-00-00."""
        return nearest(value) if isinstance(value, str) else super().instant_from_driver(value)

    def later(self, instant: str, seconds: str) -> str:
        """In whole microseconds."""
        return f"TIMESTAMPADD(MICROSECOND, ROUND({seconds} * 1000000), {instant})"


_MARKS: Mapping[tuple[str, ...], str] = {
    ("queued",): "is_queued",
    ("scheduled", "retrying"): "is_waiting",
    ("dead",): "is_dead",
}
"""The generated column of jobs for each condition on their status that an index serves."""

_ROOM = {
    # Who holds it, until when, and a longer status.
    "jobs": (64, "locked_by IS NULL AND finished_at IS NULL"),
    # When it ended, how long it took, and a longer status.
    "job_attempts": (20, "finished_at IS NULL"),
}
"""Bytes that rows keep free, and while which condition is met."""


class MariaDbStyle(TableStyle):
    """Form of tables."""

    leases_listed = True
    # Not the server's defaults: these may be another engine, and a character set without every character.
    table_options: ClassVar = {
        f"{name}_{option}": value
        for name in NAMES
        for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
    }

    def own_columns(self, table: str) -> tuple[SchemaItem, ...]:
        """1 or null, stored: indexes over virtual columns have been corrupted by purges of older servers. And room."""
        room = (_room(*_ROOM[table]),) if table in _ROOM else ()
        if table == "jobs":
            marks = (_mark(name, super(MariaDbStyle, self).status_in(*words)) for words, name in _MARKS.items())
            return (*marks, *room)
        if table == "recurring_jobs":
            return (_mark("is_enabled", super().enabled),)
        return room

    def partial_index(
        self,
        columns: tuple[str, ...],
        where: str,
        *,
        distinct: bool = False,  # noqa: ARG002
    ) -> IndexForm | None:
        """Led by the generated column, and without the id: InnoDB adds the primary key to every index."""
        if where in (self.queued_list, self.status_in("processing")):
            return None  # the list of all other jobs has them too
        if columns[0] == "status":
            # Jobs that nobody holds have no lease, so these are listed by creation, and running ones by their leases.
            columns = ("status", "locked_until", "created_at")
        if where == "workflow_id IS NOT NULL":
            # It holds plain jobs too, and these must not move in it.
            columns = tuple(column for column in columns if column != "status")
        mark, equals, _ = where.partition(" = 1")
        led = (mark, *columns) if equals else columns
        return IndexForm(led[:-1] if led[-1] == "id" else led)

    def status_in(self, *statuses: str) -> str:
        """The generated column, where there is one."""
        mark = _MARKS.get(statuses)
        return super().status_in(*statuses) if mark is None else f"{mark} = 1"

    def in_list(self, status: Status) -> str:
        """One index lists the jobs of every status, running ones by their leases, which others do not have."""
        return f"status = '{status.value}'{'' if status is Status.PROCESSING else ' AND locked_until IS NULL'}"

    def is_false(self, column: str) -> str:
        """As the server writes it down."""
        return f"{column} = 0"

    @property
    def enabled(self) -> str:
        """The generated column."""
        return "is_enabled = 1"


def _mark(name: str, condition: str) -> Column[Any]:
    return Column(name, SmallInteger, Computed(f"CASE WHEN {condition} THEN 1 END", persisted=True))


def _room(size: int, condition: str) -> Column[Any]:
    return Column("room", ByteString(size), Computed(f"CASE WHEN {condition} THEN '{'.' * size}' END", persisted=True))


TYPES = MariaDbTypes()
STYLE = MariaDbStyle()
