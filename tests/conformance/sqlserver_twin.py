"""A store on SQLite whose statements are those of SQL Server too: executed in one form, written in the other.

Whatever the conformance suite makes the common code ask of the dialect becomes a statement with both forms. The one of
SQL Server is compiled by the dialect itself and parsed as T-SQL. No server is asked, and nothing was recorded before.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import sqlglot
from plain_stores import PlainSqlite, database_by
from sqlalchemy import (
    URL,
    ColumnElement,
    CompoundSelect,
    Connection,
    CursorResult,
    Engine,
    Executable,
    Select,
    Subquery,
    Table,
    TextClause,
    Update,
    UpdateBase,
    event,
)
from sqlalchemy.dialects import mssql
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import TypeEngine
from sqlglot import exp
from tsql_rules import broken_rules

from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import Clock
from sloppyjobs.storage.dialect import json_parameter
from sloppyjobs.storage.dialects.sqlserver import json_values, upserts
from sloppyjobs.storage.dialects.sqlserver.dialect import SqlServerDialect
from sloppyjobs.storage.dialects.sqlserver.schema import SqlServerStyle
from sloppyjobs.storage.driver import Prepared, as_executed
from sloppyjobs.storage.operations import Operations
from sloppyjobs.storage.schema.tables import Tables

T_SQL = mssql.dialect(paramstyle="qmark")
T_SQL.server_version_info = (15, 0)
T_SQL._setup_version_attributes()


_TEXTS: dict[Hashable, str] = {}
"""What was compiled for SQL Server, by what SQLAlchemy knows a compiled statement by."""
_WRITTEN = ("written", InternalTraversal.dp_clauseelement)
"""The form for SQL Server is a part of that."""


class Either(ColumnElement[Any]):
    """An expression with a form for SQLite and one for SQL Server."""

    inherit_cache = True
    _is_implicitly_boolean = True
    _traverse_internals: ClassVar[Any] = [("executed", InternalTraversal.dp_clauseelement), _WRITTEN]

    def __init__(self, executed: ColumnElement[Any], written: ColumnElement[Any]) -> None:
        self.executed, self.written = executed, written
        self.type = executed.type

    @property
    def _from_objects(self) -> Any:
        return self.executed._from_objects


class EitherText(TextClause):
    """A query of SQLite that has a form for SQL Server."""

    inherit_cache = True
    _traverse_internals: ClassVar[Any] = [*TextClause._traverse_internals, _WRITTEN]
    written: TextClause


class EitherInsert(SqliteInsert):
    """An insert of SQLite that has a form for SQL Server."""

    inherit_cache = True
    _traverse_internals: ClassVar[Any] = [*SqliteInsert._traverse_internals, _WRITTEN]
    written: Any


@compiles(Either)
def _executed(element: Either, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.executed, **kw))


@compiles(Either, "mssql")
@compiles(EitherText, "mssql")
@compiles(EitherInsert, "mssql")
def _written(element: Any, compiler: Any, **kw: Any) -> str:
    return str(compiler.process(element.written, **kw))


class TwinStyle(SqlServerStyle):
    """The conditions of SQL Server, which SQLite knows too; JSON is checked there alone."""

    def own_columns(self, table: str) -> tuple[SchemaItem, ...]:
        """None."""
        return ()


class TwinDialect(PlainSqlite):
    """SQLite, with statements that have a form for SQL Server."""

    style = TwinStyle()
    first = SqlServerDialect.first
    trip_for_each = SqlServerDialect.trip_for_each

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.written: set[str] = set()
        self.interrupted: set[str] = set()
        """What was executed while the rows of something else on the same connection were still to be read."""
        self._results: dict[int, CursorResult[Any]] = {}
        self._server = SqlServerDialect(tables)

    def record(self, statement: Any, names: Sequence[str] | None = None) -> None:
        """Write the statement for SQL Server."""
        found = statement._generate_cache_key()
        if found is None:
            self.written.add(_written_text(statement, names))
            return
        # Statements that are alike but for their values have one text. Compiling each took longest of all.
        key = (found.key, None if names is None else tuple(names))
        text = _TEXTS.get(key)
        if text is None:
            text = _TEXTS[key] = _written_text(statement, names)
        self.written.add(text)

    def attach(self, engine: Engine, *, ours: bool) -> None:
        """Record what SQLAlchemy executes."""
        super().attach(engine, ours=ours)
        event.listen(engine, "before_execute", self._record_executed)
        event.listen(engine, "after_execute", self._remember_result)

    def _record_executed(
        self,
        connection: Connection,
        statement: Any,
        rows: Sequence[dict[str, Any]],
        one: dict[str, Any],
        _options: Any,
    ) -> None:
        last = self._results.pop(id(connection.connection.driver_connection), None)
        if last is not None and not last._soft_closed and sys.getrefcount(last) > _DROPPED:
            self.interrupted.add(str(statement))
        # What only SQLite executes has its other form recorded where it is made.
        of_sqlite = isinstance(statement, SqliteInsert) and not isinstance(statement, EitherInsert)
        if isinstance(statement, Select | CompoundSelect | UpdateBase) and not of_sqlite:
            given = rows[0] if rows else one
            self.record(statement, list(given) if given else None)

    def _remember_result(self, connection: Connection, *executed: Any) -> None:
        if isinstance(executed[-1], CursorResult):
            self._results[id(connection.connection.driver_connection)] = executed[-1]

    def is_unreadable(self, error: Exception) -> bool:
        """Nobody reads on what has raised this."""
        self._results.clear()
        return super().is_unreadable(error)

    def prepared(self, statement: Executable, engine: Engine) -> Prepared:
        """Record what the driver's own cursor executes."""
        self.record(statement)
        return super().prepared(statement, engine)

    def operations(self, database: Any) -> Operations:
        """Those of SQL Server."""
        return self._server.operations(database)

    def any_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Both."""
        return Either(super().any_of(column, name), self._server.any_of(column, name))

    def given_rows(self, name: str, columns: Mapping[str, TypeEngine[Any]]) -> Subquery:
        """Both."""
        read = [f"json_extract(value, '$[{place}]') AS \"{column}\"" for place, column in enumerate(columns)]
        executed = EitherText(f"SELECT {', '.join(read)} FROM json_each(:{name})")
        executed.written = json_values.text_of_rows(name, columns)
        return executed.bindparams(json_parameter(name)).columns(**columns).subquery("given")

    def insert_if_absent(self, table: Table, names: Sequence[str]) -> Any:
        """Both."""
        return _either_insert(super().insert_if_absent(table, names), self._server.insert_if_absent(table, names))

    def count_up(self) -> Any:
        """Both."""
        return _either_insert(super().count_up(), self._server.count_up())

    def add_deaths(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Both."""
        self.record(upserts.add_deaths(self.tables.deaths))
        super().add_deaths(connection, rows)

    def same_key(self, column: ColumnElement[Any], given: ColumnElement[Any]) -> ColumnElement[bool]:
        """Both."""
        return Either(super().same_key(column, given), self._server.same_key(column, given))

    def from_given(self, statement: Update) -> Update:
        """As SQL Server has it."""
        return self._server.from_given(statement)

    def raw_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Both."""
        return Either(super().raw_text(column), self._server.raw_text(column))

    def locked(self, query: Select[Any], *, skip: bool = False) -> Select[Any]:
        """Hints, which SQLAlchemy writes for SQL Server alone."""
        return self._server.locked(query, skip=skip)


_DROPPED = 2
"""References to a result that nobody has any more but who asks: its cursor would be closed by now."""


def _written_text(statement: Any, names: Sequence[str] | None) -> str:
    text, _ = as_executed(statement.compile(dialect=T_SQL, column_keys=names))
    # Of lists that SQLAlchemy expands when it executes them, one value stands for all.
    return re.sub(r"__\[POSTCOMPILE_[^\]]+\]", "?", text)


def _either_insert(executed: Any, written: Any) -> EitherInsert:
    made = EitherInsert(executed.table)
    made.__dict__.update(executed.__dict__)
    made.written = written
    return made


def twin_store(url: URL, clock: Clock | None = None) -> SqlStore:
    """A store at this address."""
    return SqlStore(database_by(TwinDialect, url, clock))


_TRIED = re.compile(
    r"(?P<before>.*?)(?P<condition>IF @@ROWCOUNT = 0 BEGIN )?BEGIN TRY (?P<tried>.*) END TRY "
    r"BEGIN CATCH IF ERROR_NUMBER\(\) NOT IN \(2601, 2627\) OR XACT_STATE\(\) = -1 THROW;(?P<caught>.*) END CATCH"
    r"(?(condition) END)",
    re.DOTALL,
)


def statements_in(text: str) -> list[str]:
    """The single statements of a text; what the parser knows of TRY and CATCH is that there are such words."""
    found = _TRIED.fullmatch(text)
    parts = [text] if found is None else [found[name] for name in ("before", "tried", "caught")]
    return [part.strip().rstrip(";") for part in parts if part.strip()]


FOREIGN = {
    "LIMIT": re.compile(r"\bLIMIT\b"),
    "FOR UPDATE": re.compile(r"\bFOR UPDATE\b"),
    "RECURSIVE": re.compile(r"\bRECURSIVE\b"),
    "a boolean as a condition": re.compile(r"(?<!IS )\bNOT (?!NULL|EXISTS|IN\b)\w+( AND|$)"),
    "||": re.compile(r"\|\|"),
    "a row value": re.compile(r"\([\w.]+, [\w.]+\) [<>]"),
    "OFFSET without an order": re.compile(r"^(?!.*ORDER BY).*\bOFFSET\b", re.DOTALL),
}
"""What SQL Server has not, and a lenient parser takes all the same."""


@cache
def faults_of(text: str) -> tuple[str, ...]:
    """What keeps a text from being T-SQL; empty where nothing was found."""
    found = [f"{name}: {text}" for name, pattern in FOREIGN.items() if pattern.search(text)]
    for statement in statements_in(text):
        try:
            parsed = sqlglot.parse_one(statement, read="tsql")
        except sqlglot.errors.SqlglotError as error:
            found.append(f"{error}: {statement}")
        else:
            if isinstance(parsed, exp.Command):
                found.append(f"not understood: {statement}")
            found += [f"{rule}: {statement}" for rule in broken_rules(parsed)]
    return tuple(found)
