"""Instants in the database: one column type, UTC on every dialect, microseconds kept.

SQLite has no such type: there an instant is text of one fixed width, so that it sorts and compares as text.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, String
from sqlalchemy.types import TypeDecorator, TypeEngine

SQLITE_NOW = "strftime('%Y-%m-%dT%H:%M:%f000Z', 'now')"


def to_text(instant: datetime) -> str:
    """An aware instant as SQLite stores it."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str) -> datetime:
    """The instant that SQLite stored; shorter fractions, as other tools write them, are read too."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


class Instant(TypeDecorator[datetime]):
    """An aware ``datetime`` in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text of 27 characters on SQLite, the zoned type elsewhere."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(27))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """What the driver is given."""
        if value is None:
            return None
        return to_text(value) if dialect.name == "sqlite" else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """What the driver gave, as an aware instant."""
        if value is None:
            return None
        if isinstance(value, str):
            return from_text(value)
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
