"""Rollbacks by pymssql, also of a transaction that the server has ended.

A deadlock, and other errors, end the whole transaction on the server. pymssql sends its rollback all the same, and
knows the refusal, error 3903, by the English words of SQL Server: in another language, and on Babelfish, it raises an
error that is none of its own ``Error``, and begins no transaction for what follows.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Dialect, Engine, event

ROLLBACK = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; BEGIN TRANSACTION"
"""pymssql promises that there is a transaction unless it is in autocommit mode."""


class PymssqlConnection:
    """A connection of pymssql, and a rollback that asks the server whether there is something to roll back."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        """Everything else is pymssql's."""
        return getattr(self._driver, name)

    def rollback(self) -> None:
        """Roll back what there is, and begin the next transaction. Raises pymssql's ``Error`` alone."""
        if not self._driver.autocommit_state:
            cursor = self._driver.cursor()
            cursor.execute(ROLLBACK)
            cursor.close()


def ask_server(engine: Engine) -> None:
    """Let connections of an engine of our own roll back so, where its driver is pymssql."""
    # By the dialect, which owns the listeners: SQLAlchemy knows a target by its address, and engines may share one.
    if engine.dialect.driver == "pymssql" and not event.contains(engine.dialect, "do_connect", _connect):
        event.listen(engine.dialect, "do_connect", _connect)


def _connect(dialect: Dialect, _record: Any, arguments: Any, options: Any) -> PymssqlConnection:
    return PymssqlConnection(dialect.connect(*arguments, **options))
