"""What SQL Server's dialect knows without a server: errors by three drivers, missing drivers, DDL, NULL in texts."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy
import sqlglot
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError
from sqlglot import exp
from sqlserver_twin import T_SQL, faults_of

from sloppyjobs import DriverMissing, InvalidOption, storage
from sloppyjobs.storage.dialects.sqlserver import applocks, drivers, faults, rollbacks, sessions
from sloppyjobs.storage.dialects.sqlserver.dialect import SqlServerDialect
from sloppyjobs.storage.dialects.sqlserver.null_values import without_nulls
from sloppyjobs.storage.dialects.sqlserver.operations import SqlServerKeys
from sloppyjobs.storage.dialects.sqlserver.schema import STYLE, TYPES
from sloppyjobs.storage.schema.instants import as_stored
from sloppyjobs.storage.schema.style import EARLIEST, LATEST
from sloppyjobs.storage.schema.tables import Tables

URL = "mssql+mssqlpython://jobs:secret@db.example.org/shop"


@pytest.fixture
def dialect() -> SqlServerDialect:
    """The dialect."""
    return SqlServerDialect(Tables(style=STYLE))


def by_pymssql(number: int, text: str) -> Exception:
    """An error as pymssql raises it."""
    return Exception(number, f"{text}DB-Lib error message 20018, severity 16".encode())


def by_pyodbc(number: int, text: str, state: str = "42000") -> Exception:
    """An error as pyodbc raises it."""
    shown = f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text} ({number}) (SQLExecDirectW)"
    return Exception(state, shown)


def by_mssql_python(text: str, said: str = "Syntax error or access violation") -> Exception:
    """An error as mssql-python raises it."""
    return Exception(f"Driver Error: {said}; DDBC Error: [Microsoft][SQL Server]{text}")


def raised(cause: Exception, *, invalidated: bool = False, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    """The error as SQLAlchemy raises it."""
    return kind(None, None, cause, connection_invalidated=invalidated)


DEADLOCK = (
    "Transaction (Process ID 61) was deadlocked on lock resources with another process and has been chosen as the "
    "deadlock victim. Rerun the transaction."
)
LOCK_TIMEOUT = "Lock request time out period exceeded."
KEY = "Violation of PRIMARY KEY constraint 'PK__jobs'. Cannot insert duplicate key in object 'dbo.sloppy_jobs'."
INDEX = "Cannot insert duplicate key row in object 'dbo.sloppy_jobs' with unique index 'uq_sloppy_jobs_key'."
NOT_NULL = "Cannot insert the value NULL into column 'id', table 'shop.dbo.sloppy_jobs'; column does not allow nulls."
NO_DATABASE = 'Cannot open database "shop" requested by the login. The login failed.'
MESSAGES = {1205: DEADLOCK, 1222: LOCK_TIMEOUT, 2627: KEY, 2601: INDEX, 515: NOT_NULL, 4060: NO_DATABASE}


@pytest.mark.parametrize("number", MESSAGES)
def test_the_number_of_an_error_is_found_by_drivers_that_have_it(number: int) -> None:
    assert faults.number(by_pymssql(number, MESSAGES[number])) == number
    assert faults.number(by_pyodbc(number, MESSAGES[number])) == number


@pytest.mark.parametrize(("number", "meant"), [(1205, 1205), (1222, 1222), (2627, 2627), (2601, 2627), (4060, 4060)])
def test_what_an_error_means_is_read_from_its_text_where_there_is_no_number(number: int, meant: int) -> None:
    assert faults.number(by_mssql_python(MESSAGES[number])) == meant


def test_a_refused_null_is_no_duplicate(dialect: SqlServerDialect) -> None:
    refused = by_mssql_python(NOT_NULL, "Integrity constraint violation")
    assert not dialect.is_duplicate(raised(refused))
    assert dialect.is_duplicate(raised(by_mssql_python(KEY, "Integrity constraint violation")))


@pytest.mark.parametrize("make", [by_pymssql, by_pyodbc, lambda _number, text: by_mssql_python(text)])
def test_deadlocks_and_lock_timeouts_are_retried(dialect: SqlServerDialect, make: Any) -> None:
    for number, text in ((1205, DEADLOCK), (1222, LOCK_TIMEOUT)):
        error = raised(make(number, text))
        assert dialect.is_transient(error)
        assert dialect.is_unavailable(error)
    assert not dialect.is_transient(raised(make(515, NOT_NULL)))


NO_TRANSACTION = "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."
NO_SAVEPOINT = "Cannot roll back sa_savepoint_2. No transaction or savepoint of that name was found."


@pytest.mark.parametrize(("number", "text"), [(3903, NO_TRANSACTION), (6401, NO_SAVEPOINT)])
@pytest.mark.parametrize("make", [by_pymssql, by_pyodbc, lambda _number, text: by_mssql_python(text)])
def test_a_deadlock_that_took_the_savepoint_with_it_is_retried(
    dialect: SqlServerDialect, make: Any, number: int, text: str
) -> None:
    def roll_back_after(cause: Exception) -> DBAPIError:
        refused = make(number, text)
        try:
            try:
                raise raised(cause)
            except DBAPIError:
                raise refused  # noqa: B904 - as where an error is handled
        except Exception:
            return raised(refused)

    assert dialect.is_transient(roll_back_after(make(1205, DEADLOCK)))
    assert dialect.is_duplicate(roll_back_after(make(2627, KEY)))
    assert not dialect.is_transient(raised(make(number, text)))


def test_a_lost_connection_is_retried_and_one_that_never_was_is_not(dialect: SqlServerDialect) -> None:
    lost = raised(Exception("Driver Error: Communication link failure; DDBC Error: [Microsoft]"), invalidated=True)
    never = raised(Exception("Driver Error: Client unable to establish connection; DDBC Error: "), invalidated=True)
    assert dialect.is_transient(lost)
    assert not dialect.is_transient(never)
    assert dialect.is_unavailable(lost)
    assert dialect.is_unavailable(never)


def test_a_database_that_is_not_there_is_a_wrong_address(dialect: SqlServerDialect) -> None:
    assert dialect.is_wrong_address(raised(by_pymssql(4060, NO_DATABASE)))
    assert dialect.is_unavailable(raised(by_mssql_python(NO_DATABASE)))


def test_a_right_that_the_user_lacks_is_told_as_such(dialect: SqlServerDialect) -> None:
    said = "The INSERT permission was denied on the object 'sloppy_jobs', database 'shop', schema 'dbo'."
    assert dialect.is_denied(raised(by_pymssql(229, said)))
    assert dialect.is_denied(raised(by_mssql_python(said)))
    assert not dialect.is_denied(raised(by_mssql_python(NO_DATABASE)))


@pytest.mark.parametrize("driver", ["mssqlpython", "pymssql"])
def test_a_missing_driver_names_the_extra(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if driver == "mssqlpython" and sqlalchemy.__version__.startswith("2.0"):
        pytest.skip("SQLAlchemy 2.0 does not know mssql-python")
    real = builtins.__import__

    def without_driver(name: str, *rest: Any) -> Any:
        if name in ("mssql_python", "pymssql"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_driver)
    with pytest.raises(DriverMissing, match=r"sloppyjobs\[sqlserver\]"):
        storage.from_url(f"mssql+{driver}://db.example.org/shop")


def test_an_old_sqlalchemy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_given: Any, **_options: Any) -> Any:
        raise NoSuchModuleError("Can't load plugin: sqlalchemy.dialects:mssql.mssqlpython")

    monkeypatch.setattr(drivers, "create_engine", unknown)
    with pytest.raises(DriverMissing, match=r"SQLAlchemy 2\.1"):
        storage.from_url("mssql://db.example.org/shop")
    monkeypatch.setattr(sqlalchemy.URL, "get_dialect", unknown)
    with pytest.raises(InvalidOption, match=r"SQLAlchemy 2\.1"):
        storage.from_url(URL)


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(InvalidOption, match="knows no such driver"):
        storage.from_url("mssql+nothing://db.example.org/shop")


class DriverOfPymssql:
    """A connection of pymssql, on which a rollback of its own would fail."""

    def __init__(self, *, autocommit: bool = False) -> None:
        self.autocommit_state = autocommit
        self.executed: list[str] = []

    def cursor(self) -> Any:
        """A cursor."""
        return SimpleNamespace(execute=self.executed.append, close=lambda: None)

    def commit(self) -> None:
        """Commit."""
        self.executed.append("commit")

    def rollback(self) -> None:
        """Refused: the server has ended the transaction already."""
        raise AssertionError("ROLLBACK can only be used in transaction blocks")


def test_a_transaction_that_the_server_has_ended_is_rolled_back_by_pymssql_too() -> None:
    driver = DriverOfPymssql()
    connection = rollbacks.PymssqlConnection(driver)
    connection.commit()
    connection.rollback()
    assert driver.executed == ["commit", "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; BEGIN TRANSACTION"]


def test_in_autocommit_mode_there_is_nothing_to_roll_back() -> None:
    driver = DriverOfPymssql(autocommit=True)
    rollbacks.PymssqlConnection(driver).rollback()
    assert driver.executed == []


@pytest.mark.parametrize(("driver", "english"), [("pymssql", False), ("pyodbc", True)])
def test_connections_of_our_own_are_wrapped_and_set_as_their_driver_needs(driver: str, english: bool) -> None:
    made = DriverOfPymssql()
    module = SimpleNamespace(
        paramstyle="pyformat", version="5.0", Error=Exception, Cursor=object, connect=lambda *_, **__: made
    )
    engine = sqlalchemy.create_engine(
        f"mssql+{driver}://db.example.org/shop?driver=x", module=module, _initialize=False
    )
    SqlServerDialect(Tables(style=STYLE)).attach(engine, ours=True)
    pooled = engine.raw_connection()
    assert isinstance(pooled.dbapi_connection, rollbacks.PymssqlConnection) is (driver == "pymssql")
    assert ("LANGUAGE us_english" in made.executed[0]) is english
    pooled.invalidate()


def test_null_is_written_into_the_text() -> None:
    named = without_nulls("SELECT %(a)s, CAST(%(b)s AS int), %(a)s", {"a": None, "b": 1})
    assert named == ("SELECT NULL, CAST(%(b)s AS int), NULL", {"b": 1})
    assert without_nulls("SELECT ?, ?, ?", (1, None, 2)) == ("SELECT ?, NULL, ?", (1, 2))
    assert without_nulls("SELECT ?", (0,)) == ("SELECT ?", (0,))


def test_instants_are_utc_to_the_microsecond() -> None:
    noon = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    text = TYPES.instant_to_driver(noon)
    assert text == "2030-01-01T12:00:00.123456"
    assert TYPES.instant_from_driver(text) == TYPES.instant_from_driver(noon.replace(tzinfo=None)) == noon
    for end in (EARLIEST, LATEST):
        assert TYPES.instant_from_driver(TYPES.instant_to_driver(end)) == end


def test_an_instant_that_was_read_is_compared_to_the_microsecond() -> None:
    kind = as_stored(Tables(style=STYLE).jobs.c.run_at).type
    read = datetime(2030, 1, 1, 12, 0, 0, 123456)  # noqa: DTZ001 - as drivers give it
    passed = kind.dialect_impl(T_SQL).bind_processor(T_SQL)
    assert passed is not None
    assert passed(read) == "2030-01-01T12:00:00.123456"


def test_tables_are_printed_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mssql_python", "pymssql", "pyodbc"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "CREATE TABLE sloppy_jobs" in storage.offline("mssql").ddl()


def batches(ddl: str) -> Iterator[str]:
    """The statements of a script, without the comments."""
    for batch in ddl.split("\nGO\n"):
        lines = [line for line in batch.splitlines() if not line.startswith("--")]
        yield from (part.strip() for part in "\n".join(lines).split(";\n") if part.strip(" ;\n"))


def test_the_printed_tables_are_t_sql() -> None:
    found = list(batches(storage.offline("mssql").ddl()))
    made = [sqlglot.parse_one(batch.rstrip(";"), read="tsql") for batch in found if batch.startswith("CREATE")]
    assert len(made) > 40
    assert all(isinstance(one, exp.Create) for one in made)
    text = "\n".join(found)
    assert "NVARCHAR(450) COLLATE Latin1_General_100_BIN2" in text
    assert "PRIMARY KEY NONCLUSTERED (minute, queue, name, shard)" in text
    assert "ISJSON" in text
    # Text without a collation of ours, or in a code page, would compare or lose characters as the database is set.
    assert "TEXT" not in text.replace("NTEXT", "")
    assert "ALTER COLUMN" not in text


def test_the_printed_tables_begin_with_the_settings_that_their_indexes_need() -> None:
    before, _, rest = storage.offline("mssql").ddl().partition("\n\nGO\n\n")
    for option in ("QUOTED_IDENTIFIER", "ANSI_NULLS", "XACT_ABORT"):
        assert re.search(rf"^SET .*\b{option}\b.* ON;$", before, re.MULTILINE)
    assert rest.startswith("BEGIN TRANSACTION;")
    of_their_own = storage.sqlserver("mssql://", schema="jobs").ddl().split("\n\nGO\n\n")
    assert of_their_own[0] == before
    assert of_their_own[1].endswith("EXEC('CREATE SCHEMA [jobs]');")


def test_the_predicates_of_indexes_are_ones_that_filtered_indexes_have() -> None:
    for index in (index for table in Tables(style=STYLE).metadata.sorted_tables for index in table.indexes):
        where = index.dialect_options["mssql"]["where"]
        if where is not None:
            parsed = sqlglot.parse_one(f"SELECT 1 WHERE {where}", read="tsql").find(exp.Where).this
            assert _is_conjunction(parsed), where


def _is_conjunction(parsed: exp.Expression) -> bool:
    """Comparisons of columns with constants, joined by AND: the grammar of a filter."""
    parts = parsed.flatten() if isinstance(parsed, exp.And) else [parsed]
    return all(_is_comparison(part) for part in parts)


def _is_comparison(part: exp.Expression) -> bool:
    if isinstance(part, exp.Not):
        return isinstance(part.this, exp.Is)
    return isinstance(part, exp.Is | exp.EQ | exp.NEQ | exp.In) and isinstance(part.this, exp.Column)


def test_what_is_sent_besides_is_t_sql(dialect: SqlServerDialect) -> None:
    take = str(applocks.TAKE.compile(dialect=T_SQL))
    texts = [
        *take.split("; "),
        *sessions.ENGLISH.split("; "),
        *rollbacks.ROLLBACK.split("; "),
        f"SELECT {dialect.now_sql}",
    ]
    assert [fault for text in texts for fault in faults_of(text)] == []


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("SELECT a FROM t WHERE a IN (SELECT b FROM u) = 1", "a condition as a value"),
        ("UPDATE t SET a = b = c", "a condition as a value"),
        ("SELECT a FROM t WHERE b", "a value as a condition"),
        ("SELECT a FROM t WHERE a = 1 AND NOT b", "a value as a condition"),
        ("SELECT a FROM t ORDER BY ?", "by a constant"),
        ("SELECT coalesce(a, ?) FROM t GROUP BY coalesce(a, ?)", "groups by a parameter"),
        ("SELECT a FROM (SELECT count(*) FROM t) AS x", "without a name"),
        ("SELECT a FROM (SELECT a, b AS a FROM t) AS x", "with one name"),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) AS x", "an order without a limit"),
        ("SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 END) FROM t", "an aggregate over a query"),
        (
            "SELECT a FROM t, (SELECT [id] FROM OPENJSON(?) WITH ([id] nvarchar(max) '$[0]')) AS given "
            "WHERE t.id = given.id",
            "no index is used",
        ),
    ],
)
def test_what_other_servers_take_and_sql_server_does_not_is_found(statement: str, rule: str) -> None:
    assert any(rule in found for found in faults_of(statement))


def test_rows_are_locked_by_hints(dialect: SqlServerDialect) -> None:
    jobs = dialect.tables.jobs
    written = str(dialect.locked(select(jobs.c.id).order_by(jobs.c.id).limit(5), skip=True).compile(dialect=T_SQL))
    assert "FROM sloppy_jobs WITH (UPDLOCK, READPAST, ROWLOCK) ORDER BY" in written
    assert "WITH (UPDLOCK, ROWLOCK)" in str(dialect.locked(select(jobs.c.id)).compile(dialect=T_SQL))


def test_a_job_gives_up_its_key_without_waiting_for_who_writes_its_row(dialect: SqlServerDialect) -> None:
    database: Any = SimpleNamespace(dialect=dialect, tables=dialect.tables)
    written = " ".join(str(SqlServerKeys(database)._keys_of_jobs().compile(dialect=T_SQL)).split())
    assert "sloppy_jobs WITH (UPDLOCK, READPAST, ROWLOCK) JOIN" in written
    assert "sloppy_job_keys WITH (UPDLOCK, READPAST, ROWLOCK) ON" in written
    assert faults_of(written) == ()


def test_the_lock_of_migrations_belongs_to_the_transaction(dialect: SqlServerDialect) -> None:
    asked: list[Any] = []

    def execute(statement: Any, values: dict[str, Any]) -> Any:
        asked.append((str(statement), values))
        return SimpleNamespace(scalar_one=lambda: 0)

    dialect.lock_migrations(SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    [(text, values)] = asked
    assert "@LockOwner = 'Transaction'" in text
    assert text.index("FROM sys.schemas") < text.index("sp_getapplock"), "a table is read first, which begins one"
    assert values == {"resource": "sloppy_job_schema", "timeout": -1}
