"""Transactions on MariaDB: their level, whose connection it is, which servers are refused, what errors mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pymysql
import pytest
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import OperationalError

from sloppyjobs import DriverMissing, InvalidOption, Jobs, StorageUnavailable, storage
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.dialects.mariadb.server import Server, refuse
from sloppyjobs.storage.ports.findings import FAIL

LOCK_WAIT_TIMEOUT = 1205


@pytest.fixture
def engine_with(mariadb_url: str) -> Iterator[Callable[..., Engine]]:
    """Makes engines of an application, each connection of which begins with these statements."""
    made: list[Engine] = []

    def make(*statements: str, **options: Any) -> Engine:
        engine = create_engine(mariadb_url, **options)

        @event.listens_for(engine, "connect")
        def begin(driver: Any, _record: Any) -> None:
            for statement in statements:
                driver.cursor().execute(statement)

        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.dispose()


def _level(store: SqlStore) -> str:
    with store.database.writing() as connection:
        return _told(connection)


def _told(connection: Connection) -> str:
    """The level of this transaction, by what it sees of another one, and whether it keeps that from writing."""
    url = connection.engine.url
    other = create_engine(url.render_as_string(hide_password=False))
    count = text("SELECT count(*) FROM sloppy_job_queues")
    before = connection.execute(count).scalar_one()
    try:
        with other.begin() as writer:
            writer.execute(text("SET innodb_lock_wait_timeout = 1"))
            row = {"name": uuid4().hex}
            writer.execute(
                text("INSERT INTO sloppy_job_queues (name, created_at) VALUES (:name, utc_timestamp(6))"), row
            )
    except OperationalError as error:
        assert error.orig is not None and error.orig.args[0] == LOCK_WAIT_TIMEOUT
        return "SERIALIZABLE"
    finally:
        other.dispose()
    return "READ COMMITTED" if connection.execute(count).scalar_one() == before + 1 else "REPEATABLE READ"


def test_a_connection_of_our_own_is_at_read_committed(store: SqlStore) -> None:
    assert _level(store) == "READ COMMITTED"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"isolation_level": "SERIALIZABLE"},
        {"isolation_level": "AUTOCOMMIT"},
        {"execution_options": {"isolation_level": "REPEATABLE READ"}},
    ],
    ids=str,
)
def test_so_is_every_transaction_on_an_engine_of_another_level(
    engine_with: Callable[..., Engine], options: dict[str, Any]
) -> None:
    engine = engine_with(**options)
    store = storage.from_url(engine)
    assert [_level(store), _level(store)] == ["READ COMMITTED"] * 2
    own = store.database.with_own_connections()
    assert _level(SqlStore(own)) == "READ COMMITTED"
    own.close()


def test_the_transactions_of_a_caller_are_the_callers(engine_with: Callable[..., Engine]) -> None:
    engine = engine_with(isolation_level="SERIALIZABLE")
    jobs = Jobs(engine)
    jobs.declare("greet")
    with engine.begin() as connection:
        job = jobs.enqueue("greet", connection=connection)
        assert _told(connection) == "SERIALIZABLE"
    assert jobs.get(job.id).status == "queued"


def test_a_caller_in_autocommit_mode_is_refused(engine_with: Callable[..., Engine]) -> None:
    engine = engine_with(isolation_level="AUTOCOMMIT")
    jobs = Jobs(engine)
    jobs.declare("greet")
    with engine.connect() as connection, pytest.raises(InvalidOption, match="autocommit"):
        jobs.enqueue("greet", connection=connection)
    assert jobs.enqueue("greet").status == "queued"


def test_the_commit_is_the_last_round_trip_of_a_transaction(jobs: Jobs, commands: list[str]) -> None:
    jobs.enqueue("greet")
    commands.clear()
    jobs.enqueue("greet")
    assert [sql.split()[0] for sql in commands] == ["BEGIN", "COMMIT"]


def test_what_was_not_committed_is_undone_before_the_next_one_has_the_connection(
    jobs: Jobs, store: SqlStore, commands: list[str]
) -> None:
    jobs.enqueue("greet")
    for _ in range(2):
        left_open = store.engine.raw_connection()
        left_open.cursor().execute("INSERT INTO sloppy_job_queues (name, created_at) VALUES ('a', utc_timestamp(6))")
        left_open.close()
        assert commands[-1] == "ROLLBACK"
    with pytest.raises(ZeroDivisionError), store.database.writing() as connection:
        connection.execute(text("INSERT INTO sloppy_job_queues (name, created_at) VALUES ('a', utc_timestamp(6))"))
        raise ZeroDivisionError
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sloppy_job_queues WHERE name = 'a'")).scalar_one() == 0


def test_both_names_of_the_database_lead_to_it(mariadb_url: str) -> None:
    url = make_url(mariadb_url)
    for name in ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"):
        made = storage.from_url(url.set(drivername=name))
        jobs = Jobs(made)
        jobs.declare("greet")
        with create_engine(url.set(drivername="mariadb+pymysql")).begin() as connection:
            assert jobs.enqueue("greet", connection=connection).status == "queued"
        made.close()


def test_keys_that_differ_in_case_or_in_a_last_space_are_told_apart(jobs: Jobs) -> None:
    keys = ["key", "Key", "key ", "kéy"]
    made = [jobs.enqueue("greet", idempotency_key=key) for key in keys]
    assert len({job.id for job in made}) == len(keys)
    assert [jobs.enqueue("greet", idempotency_key=key).id for key in keys] == [job.id for job in made]


# Servers and tables that are refused


def test_a_mode_that_is_not_strict_is_refused(engine_with: Callable[..., Engine]) -> None:
    jobs = Jobs(engine_with("SET SESSION sql_mode = ''"))
    jobs.declare("greet")
    with pytest.raises(InvalidOption, match="STRICT_TRANS_TABLES"):
        jobs.enqueue("greet")


def test_tables_in_another_engine_are_refused(new_mariadb_url: str) -> None:
    with create_engine(new_mariadb_url).begin() as connection:
        connection.execute(text("ALTER TABLE sloppy_job_logs ENGINE=MyISAM"))
    jobs = Jobs(new_mariadb_url)
    jobs.declare("greet")
    with pytest.raises(InvalidOption, match=r"sloppy_job_logs \(MyISAM\).*ENGINE=InnoDB"):
        jobs.enqueue("greet")
    assert {one.check for one in jobs.storage.doctor.diagnose() if one.status == FAIL} == {"engine"}
    jobs.storage.close()


def test_missing_rights_are_named(new_mariadb_url: str) -> None:
    url = make_url(new_mariadb_url)
    user = f"reader_{url.database}"[:32]
    with create_engine(url).begin() as connection:
        connection.execute(text(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret'"))
        connection.execute(text(f"GRANT SELECT ON {url.database}.* TO {user}@'%'"))
        connection.execute(text(f"GRANT INSERT ON {url.database}.sloppy_jobs TO {user}@'%'"))
    made = storage.from_url(url.set(username=user, password="secret"))
    [found] = [one for one in made.doctor.diagnose() if one.check == "rights"]
    assert (found.status, "INSERT on sloppy_job_logs" in found.detail) == (FAIL, False)
    assert found.detail.startswith("missing: INSERT on sloppy_job_alert_rules, UPDATE on sloppy_job_alert_rules")
    assert "GRANT SELECT, INSERT, UPDATE, DELETE" in str(found.hint)
    made.close()
    with create_engine(url).begin() as connection:
        connection.execute(text(f"DROP USER {user}@'%'"))


def test_the_servers_default_engine_does_not_matter(empty_mariadb_url: str) -> None:
    engine = create_engine(empty_mariadb_url)

    @event.listens_for(engine, "connect")
    def begin(driver: Any, _record: Any) -> None:
        driver.cursor().execute("SET SESSION default_storage_engine = MyISAM")

    made = storage.from_url(engine)
    made.init()
    assert all(one.status == "ok" for one in made.doctor.diagnose())
    engine.dispose()


@pytest.mark.parametrize(
    ("version", "works"),
    [
        ("10.5.29-MariaDB", False),
        ("5.5.5-10.5.29-MariaDB-log", False),
        ("10.6.1-MariaDB", True),
        ("11.8.2-MariaDB-ubu2404", True),
        ("5.7.44-log", False),
        ("8.0.36-0ubuntu0.22.04.1", True),
        ("9.1.0", True),
    ],
)
def test_old_servers_are_refused(version: str, works: bool) -> None:
    found = Server(version, "MariaDB" in version, frozenset({"STRICT_TRANS_TABLES"}), ())
    if works:
        refuse(found)
        return
    with pytest.raises(InvalidOption, match=r"too old.*MariaDB 10\.6 or MySQL 8\.0"):
        refuse(found)


# Errors


@pytest.mark.parametrize(
    "change", [{"database": "nowhere"}, {"username": "nobody", "password": "wrong"}], ids=["database", "user"]
)
def test_what_leads_to_no_database_is_a_wrong_address(mariadb_url: str, change: dict[str, str]) -> None:
    jobs = Jobs(make_url(mariadb_url).set(**change))
    jobs.declare("greet")
    with pytest.raises(StorageUnavailable) as refused:
        jobs.enqueue("greet")
    assert refused.value.wrong_address
    assert "wrong" not in str(refused.value)


def test_no_server_is_told_at_once(mariadb_url: str) -> None:
    jobs = Jobs(make_url(mariadb_url).set(port=1))
    jobs.declare("greet")
    with pytest.raises(StorageUnavailable, match="connect") as away:
        jobs.enqueue("greet")
    assert not away.value.maybe_done
    assert not away.value.wrong_address


def test_a_server_that_can_only_be_read_is_told(engine_with: Callable[..., Engine]) -> None:
    jobs = Jobs(engine_with("SET SESSION TRANSACTION READ ONLY"))
    jobs.declare("greet")
    with pytest.raises(StorageUnavailable) as refused:
        jobs.enqueue("greet")
    assert refused.value.read_only


def test_a_connection_that_was_killed_is_replaced(jobs: Jobs, store: SqlStore, mariadb_server: Any) -> None:
    first = jobs.enqueue("greet")
    mariadb_server.disconnect(str(store.engine.url.database))
    second = jobs.enqueue("greet")
    assert {claim.id for claim in jobs.claim("w1", limit=5)} == {first.id, second.id}


@pytest.fixture
def lose_answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the connection break after so many commits were done and before their answers were read."""
    left = [0]
    commit = pymysql.connections.Connection.commit

    def lossy(connection: Any) -> None:
        commit(connection)
        if left[0] > 0:
            left[0] -= 1
            connection._force_close()
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.connections.Connection, "commit", lossy)

    def lose(number: int) -> None:
        left[0] = number

    return lose


def test_an_enqueue_whose_answer_was_lost_is_not_repeated(jobs: Jobs, lose_answers: Callable[[int], None]) -> None:
    jobs.enqueue("greet", 0)
    lose_answers(1)
    job = jobs.enqueue("greet", 1)
    lose_answers(1)
    many = jobs.enqueue_many([("greet", 2), ("greet", 3)])
    claims = jobs.claim("w1", limit=10)
    assert [claim.payload for claim in claims] == [0, 1, 2, 3]
    assert {job.id, *(one.id for one in many)} < {claim.id for claim in claims}


def test_a_settlement_and_a_claim_whose_answers_were_lost_are_recognised(
    jobs: Jobs, lose_answers: Callable[[int], None]
) -> None:
    written = jobs.enqueue_many([("greet", n) for n in range(8)])
    lose_answers(1)
    claims = jobs.claim("w1", limit=6)
    assert [claim.id for claim in claims] == [job.id for job in written[:6]]
    lose_answers(1)
    assert jobs.complete(claims[0])
    assert {jobs.get(job.id).status for job in written[1:6]} == {"processing"}
    assert jobs.get(written[0].id).attempt_count == 1


def test_a_missing_driver_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(DriverMissing, match=r"pip install 'sloppyjobs\[mysql\]'"):
        storage.mariadb("mysql://localhost/app")


def test_a_bulk_of_payloads_that_grow_when_they_are_written_fits_into_a_packet(jobs: Jobs) -> None:
    payload = {"text": '"\\' * 20_000}
    made = jobs.enqueue_many([("greet", payload)] * 60)
    assert len(made) == 60
    assert jobs.claim("w1", limit=1)[0].payload == payload


# Rights


def test_the_rights_that_the_documentation_names_are_enough(
    mariadb_server: Any, empty_mariadb_url: str, kept_users: Callable[[str], str]
) -> None:
    database = make_url(empty_mariadb_url).database
    owner = kept_users(f"SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON {database}.*")
    made = storage.from_url(make_url(empty_mariadb_url).set(username=owner))
    made.init()
    made.close()
    worker = kept_users(f"SELECT, INSERT, UPDATE, DELETE ON {database}.*")
    jobs = Jobs(make_url(empty_mariadb_url).set(username=worker))
    jobs.define("greet", lambda ctx, payload: "hello")
    job = jobs.enqueue("greet")
    jobs.create_worker().run_once()
    assert jobs.get(job.id).result == "hello"
    assert all(one.status == "ok" for one in jobs.storage.doctor.diagnose())
    jobs.storage.close()


@pytest.mark.parametrize("without", ["CREATE", "INDEX", "ALTER", "SELECT", "DELETE"])
def test_a_right_that_is_missing_is_named_before_anything_is_created(
    mariadb_server: Any, empty_mariadb_url: str, kept_users: Callable[[str], str], without: str
) -> None:
    database = make_url(empty_mariadb_url).database
    rights = [
        right for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "INDEX") if right != without
    ]
    made = storage.from_url(
        make_url(empty_mariadb_url).set(username=kept_users(f"{', '.join(rights)} ON {database}.*"))
    )
    with pytest.raises(InvalidOption, match=rf"nothing was created: GRANT {without} ON `{database}`\.\* to it"):
        made.init()
    made.close()
    assert mariadb_server.rows(f"SHOW TABLES FROM `{database}`") == []


@pytest.fixture
def kept_users(mariadb_server: Any) -> Iterator[Callable[[str], str]]:
    """Makes users with some rights, for the time of the test."""
    made: list[str] = []

    def make(rights: str) -> str:
        name = f"sloppy_{os.getpid()}_{len(made)}"
        made.append(name)
        mariadb_server.rows(f"CREATE USER '{name}'@'%'")
        mariadb_server.rows(f"GRANT {rights} TO '{name}'@'%'")
        return name

    yield make
    for name in made:
        mariadb_server.rows(f"DROP USER '{name}'@'%'")
