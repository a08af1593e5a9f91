"""Compiled SQL that all engines of a test process share.

Nearly every test makes an engine of its own, and SQLAlchemy compiles each statement once per engine. Over thousands of
tests that took longer than the statements themselves.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache, wraps
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Dialect, Engine, event

_MOST = 4000


def share_placeholders() -> None:
    """Let pg8000 look for the placeholders of a statement once: it goes through the text letter by letter."""
    from pg8000 import legacy

    find = legacy.convert_paramstyle
    if hasattr(find, "__wrapped__"):
        return
    known = lru_cache(_MOST)(lambda query: find("format", query, ())[0])

    @wraps(find)
    def convert(style: str, query: str, args: Any) -> tuple[str, Any]:
        return (known(query), args) if style == "format" else find(style, query, args)

    legacy.convert_paramstyle = convert


class SharedStatements(dict[Any, Any]):
    """A cache for SQLAlchemy's ``compiled_cache`` that takes two dialects with the same settings for one."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: WeakKeyDictionary[Dialect, Hashable] = WeakKeyDictionary()

    def get(self, key: Any, default: Any = None) -> Any:
        """The compiled statement, whichever engine it was compiled for."""
        return super().get(self._shared(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(self._shared(key), compiled)

    def _shared(self, key: Any) -> Any:
        dialect, *statement = key
        settings = self._settings.get(dialect)
        if settings is None:
            plain = {name: value for name, value in vars(dialect).items() if isinstance(value, str | int | tuple)}
            settings = self._settings[dialect] = (type(dialect), repr(sorted(plain.items())))
        return (settings, *statement)


def share_statements() -> None:
    """Let every connection of this process, of any engine, look for compiled statements in one place."""
    shared = SharedStatements()

    @event.listens_for(Engine, "engine_connect")
    def use(connection: Connection) -> None:
        connection.execution_options(compiled_cache=shared)
