"""What is different on MariaDB, on a database of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from sloppyjobs import Jobs, storage
from sloppyjobs.storage import SqlStore


@pytest.fixture
def store(mariadb_url: str) -> Iterator[SqlStore]:
    """A storage with connections of its own making."""
    made = storage.from_url(mariadb_url)
    yield made
    made.close()


@pytest.fixture
def jobs(store: SqlStore) -> Jobs:
    """Jobs on it, with two names."""
    made = Jobs(store)
    for name in ("greet", "count"):
        made.declare(name)
    return made


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were sent, and the ends of transactions: a round trip each."""
    found: list[str] = []
    execute = pymysql.connections.Connection._execute_command

    def noted(connection: pymysql.connections.Connection, command: int, sql: str | bytes) -> None:
        found.append((sql if isinstance(sql, str) else bytes(sql).decode()).strip())
        execute(connection, command, sql)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", noted)
    return found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were sent, as the server got them."""
    found: list[str] = []
    query = pymysql.connections.Connection.query

    def noted(connection: pymysql.connections.Connection, sql: str | bytes, unbuffered: bool = False) -> int:
        found.append(sql if isinstance(sql, str) else bytes(sql).decode())
        return query(connection, sql, unbuffered)

    monkeypatch.setattr(pymysql.connections.Connection, "query", noted)
    return found
