"""Columns and indexes of SQLite, which has no type for instants: they are text of one fixed width, which sorts as text.

A column may hold any text, or a BLOB, which sorts after every text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Integer, String
from sqlalchemy.types import TypeEngine

from sloppyjobs.storage.dialects.partial_indexes import PartialIndexes
from sloppyjobs.storage.schema.style import EARLIEST, ColumnTypes, out_of_range, to_text

NOW = "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')"


class SqliteTypes(ColumnTypes):
    """Types of columns."""

    def row_number(self) -> TypeEngine[Any]:
        """SQLite numbers rows by itself only for a column of exactly this type."""
        return Integer()

    def instant(self) -> TypeEngine[Any]:
        """Text of 27 characters."""
        return String(27)

    def instant_to_driver(self, value: datetime) -> str:
        """The text; what is out of range sorts before or after every other."""
        if out_of_range(value):
            return "" if value <= EARLIEST else "\U0010ffff"
        return to_text(value)

    def later(self, instant: str, seconds: str) -> str:
        """By a modifier of ``strftime``."""
        return f"strftime('%Y-%m-%dT%H:%M:%f000Z', {instant}, {seconds} || ' seconds')"


class SqliteStyle(PartialIndexes):
    """Form of tables."""

    keyword = "sqlite_where"
    by_key_options: ClassVar = {"sqlite_with_rowid": False}
    # An index is written to only where one of its columns changes.
    members_of_workflow = ("workflow_id", "id")


TYPES = SqliteTypes()
STYLE = SqliteStyle()
