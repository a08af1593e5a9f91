"""The driver's own connections and cursors, statements that are compiled once for them, and what these changed.

What was decided by a read may not hold any more when it is written. Locks keep that from happening where the database
has them. Where it has none, the condition of each update decides, and whoever has missed a row raises ``Conflict``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, Executable, event
from sqlalchemy.exc import DBAPIError


class Prepared:
    """A Core statement, compiled once and then run on the driver's own cursor.

    Building and compiling a statement costs more than executing it, so the hot paths do it once.
    Instants are passed and returned in the driver's own form.
    """

    __slots__ = ("_fixed", "_names", "sql")

    def __init__(self, statement: Executable, engine: Engine) -> None:
        compiled = statement.compile(dialect=self.dialect_for(engine))  # type: ignore[attr-defined]
        self.sql, self._names = as_executed(compiled)
        self._fixed: Mapping[str, Any] = {k: v for k, v in compiled.params.items() if v is not None}

    def dialect_for(self, engine: Engine) -> Dialect:
        """What the statement is compiled for."""
        return engine.dialect

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


def as_executed(compiled: Any) -> tuple[str, Sequence[str] | None]:
    """The text of a compiled statement, and its parameters in their order where the driver goes by the order.

    Where a database takes no parameter for a limit, SQLAlchemy writes the number into the text when it executes it.
    """
    text, names = compiled.string, compiled.positiontup
    for parameter in compiled.literal_execute_params:
        name = compiled.bind_names[parameter]
        text = text.replace(f"__[POSTCOMPILE_{name}]", str(int(parameter.value)))
        names = names and [one for one in names if one != name]
    return text, names


def cursor_of(connection: Connection) -> Any:
    """A cursor of the driver's own, inside the connection's transaction."""
    return driver_of(connection).cursor()


def driver_of(connection: Connection) -> Any:
    """The driver's own connection, inside a transaction that SQLAlchemy knows of.

    Of an asynchronous driver it is SQLAlchemy's synchronous face.
    """
    if not connection.in_transaction():
        # What it did not see begin, it would not commit when it is asked to.
        connection.begin()
    return connection.connection.dbapi_connection


def as_sqlalchemy(error: Exception, engine: Engine, *, broken: bool) -> Exception:
    """An error of the driver as SQLAlchemy would have raised it."""
    base = engine.dialect.loaded_dbapi.Error
    found: Exception = DBAPIError.instance(
        None, None, error, base, connection_invalidated=broken, dialect=engine.dialect
    )
    return found


def detached(engine: Engine) -> Any:
    """A connection of the driver's own that the pool does not know any more; the caller closes it."""
    pooled = engine.raw_connection()
    driver = pooled.driver_connection
    pooled.detach()
    return driver


class Conflict(Exception):
    """A row has changed between the read and the write: the transaction is undone and run again."""


def all_changed(changed: int, meant: int) -> None:
    """Raise ``Conflict`` unless a conditional statement changed all the rows that it was meant to change."""
    if changed != meant:
        raise Conflict(f"{meant - changed} of {meant} rows have been changed by others meanwhile")


def close_with_failed(engine: Engine, is_useless: Callable[[Any], bool] | None = None) -> None:
    """Close every connection of this engine, from now on, when one of them is given up because of an error.

    What ended it has mostly ended the others too. The same happens when one comes back of which ``is_useless`` is true.
    """
    generation = 0

    def connected(_driver: Any, record: Any) -> None:
        record.info["sloppyjobs_generation"] = generation
        record.info["sloppyjobs_process"] = os.getpid()

    def invalidated(_driver: Any, record: Any, error: BaseException | None) -> None:
        if error is not None and record.info.get("sloppyjobs_generation") == generation:
            engine.dispose()

    def disposed(_engine: Engine) -> None:
        nonlocal generation
        generation += 1

    def returned(driver: Any, record: Any) -> None:
        if driver is None:
            return
        if is_useless is not None and is_useless(driver):
            engine.dispose()
        # It was in use while the others were closed; nobody would ever use it again.
        if record.info.get("sloppyjobs_generation") == generation:
            return
        # A forked child leaves alone what is its parent's.
        if record.info.get("sloppyjobs_process") == os.getpid():
            record.invalidate()

    # Before the listeners that are there already, some of which execute statements.
    event.listen(engine, "connect", connected, insert=True)
    event.listen(engine, "invalidate", invalidated)
    event.listen(engine, "checkin", returned)
    event.listen(engine, "engine_disposed", disposed)
