"""SQLite: one writer at a time, instants as text, lists as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage


def open_storage(target: URL | Engine, **options: Any) -> SqliteStorage:
    """The storage over a file or an engine."""
    from sloppyjobs.storage.dialects.sqlite.storage import SqliteStorage  # noqa: PLC0415 - loaded when it is used

    return SqliteStorage(target, **options)
