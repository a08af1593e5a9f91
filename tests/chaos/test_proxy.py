"""The proxy does what the tests of faults rely on."""

from __future__ import annotations

import psycopg
import pytest
from proxy import FaultyProxy


def test_it_passes_statements_and_answers(proxied_url: str) -> None:
    with psycopg.connect(proxied_url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_dropped_answer_to_commit_leaves_the_row_committed(proxy: FaultyProxy, proxied_url: str) -> None:
    connection = psycopg.connect(proxied_url)
    connection.execute("CREATE TABLE lost (n int)")
    connection.execute("INSERT INTO lost VALUES (1)")
    proxy.drop_commit_answers()
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    assert proxy.commits_dropped == 1
    with psycopg.connect(proxied_url) as other:
        assert other.execute("SELECT n FROM lost").fetchall() == [(1,)]


@pytest.mark.parametrize("prepare", [False, True], ids=["plain", "prepared"])
def test_a_dropped_answer_to_a_statement_leaves_its_effect(proxy: FaultyProxy, proxied_url: str, prepare: bool) -> None:
    connection = psycopg.connect(proxied_url, autocommit=True)
    connection.execute("CREATE TABLE lost (n int)")
    connection.execute("INSERT INTO lost VALUES (%s)", (1,), prepare=prepare)
    proxy.drop_answer_to("INSERT INTO lost")
    connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connection.execute("INSERT INTO lost VALUES (%s)", (2,), prepare=prepare)
    assert proxy.answers_dropped == 1
    with psycopg.connect(proxied_url) as other:
        assert other.execute("SELECT n FROM lost").fetchall() == [(1,), (2,)]


def test_inside_a_transaction_it_is_the_answer_to_its_end_that_is_dropped(proxy: FaultyProxy, proxied_url: str) -> None:
    with psycopg.connect(proxied_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE lost (n int)")
    connection = psycopg.connect(proxied_url)
    proxy.drop_answer_to("INSERT INTO lost")
    connection.execute("INSERT INTO lost VALUES (1)")
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    with psycopg.connect(proxied_url) as other:
        assert other.execute("SELECT n FROM lost").fetchall() == [(1,)]


def test_a_reset_ends_open_connections_and_new_ones_work(proxy: FaultyProxy, proxied_url: str) -> None:
    connection = psycopg.connect(proxied_url)
    proxy.reset()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with psycopg.connect(proxied_url) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_black_hole_swallows_and_new_connections_work(proxy: FaultyProxy, proxied_url: str) -> None:
    connection = psycopg.connect(proxied_url)
    (link,) = proxy.black_hole()
    connection.pgconn.send_query(b"SELECT 1")
    with psycopg.connect(proxied_url) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)
    assert connection.pgconn.is_busy()
    link.reset()
    connection.close()
