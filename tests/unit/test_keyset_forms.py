"""Forms of keyset reads that do not depend on the database: keys without row values, answers without an order."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from plain_stores import PlainSqlite
from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert, select

from sloppyjobs import Jobs
from sloppyjobs.storage import FakeClock, sqlite
from sloppyjobs.storage.dialect import Dialect
from sloppyjobs.storage.dialects.sqlite.dialect import SqliteDialect
from sloppyjobs.storage.reads.keyset import Keyset
from sloppyjobs.storage.schema.tables import Tables

ROWS = list(product(range(3), repeat=3))
KEYS = Table("keys", MetaData(), *(Column(name, Integer, primary_key=True) for name in "abc"))


@pytest.fixture(scope="module")
def connection() -> Connection:
    """A connection to a table of all keys."""
    opened = create_engine("sqlite://").connect()
    KEYS.create(opened)
    opened.execute(insert(KEYS), [dict(zip("abc", row, strict=True)) for row in ROWS])
    return opened


@pytest.mark.parametrize("dialect", [SqliteDialect, PlainSqlite])
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("descending", [False, True])
def test_the_rows_beyond_a_key_are_those_that_sort_after_it(
    connection: Connection, dialect: type[Dialect], width: int, descending: bool
) -> None:
    columns = list(KEYS.c)[:width]
    for key in sorted({row[:width] for row in ROWS}):
        condition = dialect(Tables()).beyond(columns, key, descending=descending)
        found = {tuple(row) for row in connection.execute(select(KEYS).where(condition))}
        assert found == {row for row in ROWS if (row[:width] < key if descending else row[:width] > key)}


def test_the_last_runs_are_in_order_however_a_union_is_answered(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock("2026-01-01T12:00:00Z")
    store = sqlite(sqlite_url, clock=clock)
    store.init()
    jobs = Jobs(store)
    jobs.declare("greet")
    schedule = jobs.recurring("minutely", "greet", every=60)
    for _ in range(3):
        clock.advance(60)
        jobs.tick_recurring()
    expected = store.recent_runs.last_runs([schedule.id], 2)
    each = Keyset.each

    def reversed_rows(*arguments: Any) -> list[list[Any]]:
        return [answer[::-1] for answer in each(*arguments)]

    monkeypatch.setattr(Keyset, "each", reversed_rows)
    assert store.recent_runs.last_runs([schedule.id], 2) == expected
    assert len(expected[schedule.id]) == 2
    store.close()
