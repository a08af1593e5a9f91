"""NULL is written into the text of a statement instead of being passed.

A driver of ODBC does not know the type of a parameter that is null, and asks the server for it: a round trip more,
which fails for statements that the server cannot describe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Engine, event

from sloppyjobs.storage.driver import Prepared

_PLACE = re.compile(r"\?")


def without_nulls(statement: str, values: Any) -> tuple[str, Any]:
    """The statement and its values, none of which is None."""
    if isinstance(values, Mapping):
        for name in [name for name, value in values.items() if value is None]:
            statement = statement.replace(f"%({name})s", "NULL")
        return statement, {name: value for name, value in values.items() if value is not None}
    if None not in values:
        return statement, values
    places = iter(values)
    written = _PLACE.sub(lambda place: "NULL" if next(places) is None else place[0], statement)
    return written, tuple(value for value in values if value is not None)


def execute(cursor: Any, statement: str, values: Any) -> None:
    """Execute a statement."""
    statement, values = without_nulls(statement, values)
    cursor.execute(statement, values)


def write_nulls(engine: Engine) -> None:
    """Let SQLAlchemy do so on an engine of our own."""
    if not event.contains(engine.dialect, "do_execute", _do_execute):
        event.listen(engine.dialect, "do_execute", _do_execute)
        event.listen(engine.dialect, "do_executemany", _do_executemany)


def _do_execute(cursor: Any, statement: str, values: Any, _context: Any) -> bool:
    execute(cursor, statement, values)
    return True


def _do_executemany(cursor: Any, statement: str, rows: Sequence[Any], _context: Any) -> bool:
    if not any(_has_null(row) for row in rows):
        return False
    for row in rows:
        execute(cursor, statement, row)
    return True


def _has_null(row: Any) -> bool:
    return None in (row.values() if isinstance(row, Mapping) else row)


def _rows_of(cursor: Any) -> list[tuple[Any, ...]]:
    """The rows of the first answer that has any; before it, a driver may tell how many rows were written."""
    while not cursor.description and cursor.nextset():
        pass
    fetched: list[tuple[Any, ...]] = cursor.fetchall()
    return fetched


def read_to_the_end(cursor: Any) -> None:
    """Read what the server says after a result, also the answers of further statements: the rest would be cancelled."""
    while cursor.nextset():
        pass


class PreparedWithoutNulls(Prepared):
    """The same for the driver's own cursor.

    Each execution has a cursor of its own, closed when it ends. To close one asks the server, where it has a prepared
    statement, and rows and tracebacks keep cursors alive: the garbage collector would close them in any thread, while
    another one is using the connection.
    """

    def rows(self, cursor: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Execute and fetch everything."""
        with closing(cursor.connection.cursor()) as own:
            execute(own, self.sql, self.bind(values))
            fetched = _rows_of(own)
            read_to_the_end(own)
        return fetched

    def run(self, cursor: Any, values: Mapping[str, Any]) -> int:
        """Execute, and return how many rows the first statement touched."""
        with closing(cursor.connection.cursor()) as own:
            execute(own, self.sql, self.bind(values))
            count: int = own.rowcount
            read_to_the_end(own)
        return count

    def many(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row."""
        for row in rows:
            self.run(cursor, row)
