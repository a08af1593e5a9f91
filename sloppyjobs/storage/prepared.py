"""Statements that are compiled once and run on the driver's own cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, Executable


class Prepared:
    """A Core statement, compiled once and then run on the driver's own cursor.

    Building and compiling a statement costs more than executing it, so the hot paths do it once.
    Instants are passed and returned in the driver's own form.
    """

    __slots__ = ("_fixed", "_names", "sql")

    def __init__(self, statement: Executable, engine: Engine) -> None:
        compiled = statement.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self.sql: str = compiled.string
        self._names: Sequence[str] | None = compiled.positiontup
        self._fixed: Mapping[str, Any] = {k: v for k, v in compiled.params.items() if v is not None}

    def bind(self, values: Mapping[str, Any]) -> Any:
        """The values in the order or form that the driver wants."""
        if self._fixed:
            values = {**self._fixed, **values}
        if self._names is None:
            return values
        return tuple([values[name] for name in self._names])

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute and fetch everything."""
        cursor.execute(self.sql, self.bind(values))
        fetched: list[tuple[Any, ...]] = cursor.fetchall()
        return fetched

    def run(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """Execute, and return how many rows were touched."""
        cursor.execute(self.sql, self.bind(values))
        count: int = cursor.rowcount
        return count

    def many(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row, in one call to the driver."""
        if rows:
            cursor.executemany(self.sql, [self.bind(row) for row in rows])
