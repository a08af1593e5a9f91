"""Cursors of SQL Server's drivers: what is read of their answers, and when they are closed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, bindparam, create_engine, event, select
from sqlserver_twin import T_SQL, faults_of

from sloppyjobs.storage.dialects.sqlserver import rollbacks
from sloppyjobs.storage.dialects.sqlserver.dialect import SqlServerDialect
from sloppyjobs.storage.dialects.sqlserver.schema import STYLE
from sloppyjobs.storage.schema.tables import Tables

Answer = list[tuple[Any, ...]] | int
"""Rows, or how many were written; -1 where the driver does not know."""


class ScriptedCursor:
    """A cursor with these answers to one text."""

    def __init__(self, connection: Any, answers: Sequence[Answer], refused: Exception | None = None) -> None:
        self.connection = connection
        self.closed = False
        self._left = list(answers)
        self._refused = refused

    @property
    def description(self) -> Any:
        """Of rows alone."""
        return ("column",) if self._left and isinstance(self._left[0], list) else None

    @property
    def rowcount(self) -> int:
        """How many rows were written."""
        return self._left[0] if self._left and isinstance(self._left[0], int) else -1

    @property
    def unread(self) -> int:
        """How many answers are left."""
        return len(self._left)

    def execute(self, *_given: Any) -> None:
        """Execute, or raise."""
        if self._refused is not None:
            raise self._refused

    def fetchall(self) -> Any:
        """The rows of this answer."""
        return self._left[0]

    def nextset(self) -> bool:
        """Go to the next answer."""
        del self._left[0]
        return bool(self._left)

    def close(self) -> None:
        """Close."""
        self.closed = True


class ScriptedConnection:
    """A connection that makes such cursors."""

    def __init__(self, *answers: Answer, refused: Exception | None = None) -> None:
        self.made: list[ScriptedCursor] = []
        self._answers, self._refused = answers, refused

    def cursor(self) -> ScriptedCursor:
        """A cursor."""
        self.made.append(ScriptedCursor(self, self._answers, self._refused))
        return self.made[-1]


@pytest.fixture
def engine() -> Engine:
    """Of a driver that is not there."""
    return create_engine("mssql+pymssql://", module=SimpleNamespace(paramstyle="pyformat"))


@pytest.fixture
def dialect() -> SqlServerDialect:
    """The dialect."""
    return SqlServerDialect(Tables(style=STYLE))


def test_each_execution_has_a_cursor_of_its_own_which_is_read_and_closed(
    dialect: SqlServerDialect, engine: Engine
) -> None:
    connection = ScriptedConnection([(1,)], 3)
    given, query = connection.cursor(), dialect.prepared(select(bindparam("a")), engine)
    assert query.rows(given, {"a": 1}) == [(1,)]
    assert query.rows(given, {"a": 1}) == [(1,)]
    assert [one.closed for one in connection.made] == [False, True, True]
    assert [one.unread for one in connection.made] == [2, 0, 0]


def test_the_cursor_of_a_refused_statement_is_closed_by_its_own_thread(
    dialect: SqlServerDialect, engine: Engine
) -> None:
    refused = ValueError("was deadlocked on")
    connection = ScriptedConnection(refused=refused)
    query, given = dialect.prepared(select(bindparam("a")), engine), connection.cursor()
    for execute in (query.rows, query.run):
        with pytest.raises(ValueError, match="deadlocked"):
            execute(given, {"a": 1})
    assert [one.closed for one in connection.made] == [False, True, True]


@pytest.mark.parametrize("told_before", [[], [1], [-1]])
def test_an_insert_says_what_it_has_written_where_the_driver_does_not_count(
    dialect: SqlServerDialect, engine: Engine, told_before: list[Answer]
) -> None:
    connection = ScriptedConnection(*told_before, [(1,)])
    insert = dialect.prepared(dialect.insert_if_absent(dialect.tables.locks, ("name", "owner")), engine)
    assert insert.run(connection.cursor(), {"name": "a", "owner": "b"}) == 1


def test_an_insert_that_is_counted_is_t_sql(dialect: SqlServerDialect) -> None:
    counted = str(dialect.insert_if_absent(dialect.tables.locks, ("name", "owner")).counted.compile(dialect=T_SQL))
    assert counted.startswith("DECLARE @written int = 0; BEGIN TRY INSERT INTO sloppy_job_locks")
    assert "@@ROWCOUNT END TRY BEGIN CATCH" in counted
    assert counted.endswith("END CATCH; SELECT @written AS written")
    assert not faults_of("SELECT @written AS written")


def test_an_engine_that_shares_a_dialect_finds_what_listens_already(engine: Engine) -> None:
    rollbacks.ask_server(Engine(engine.pool, engine.dialect, engine.url))
    rollbacks.ask_server(engine)
    assert len(list(engine.dialect.dispatch.do_connect)) == 1
    assert event.contains(engine.dialect, "do_connect", rollbacks._connect)
