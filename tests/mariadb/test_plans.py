"""Nothing that locks rows reads a table as a whole, whatever the statistics say, and lists follow their indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest
from sqlalchemy import make_url

from sloppyjobs import Jobs

LARGE = {"sloppy_jobs", "sloppy_job_attempts", "sloppy_job_events"}
SCANS = {"ALL", "index"}


@pytest.fixture
def server(mariadb_url: str) -> Iterator[Any]:
    """A connection beside the library's."""
    url = make_url(mariadb_url)
    with pymysql.connect(
        host=url.host, port=url.port or 3306, user=url.username, password=url.password or "", database=url.database
    ) as connection:
        yield connection.cursor(pymysql.cursors.DictCursor)


def _as_they_are(_server: Any) -> None:
    """Nobody has gathered any since the tables were made."""


def _gathered(server: Any) -> None:
    server.execute(f"ANALYZE TABLE {', '.join(sorted(LARGE))}")
    server.fetchall()


@pytest.fixture(params=[_as_they_are, _gathered], ids=["statistics of empty tables", "fresh statistics"])
def statistics(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    found: Callable[[Any], None] = request.param
    return found


def _fill(jobs: Jobs, number: int) -> None:
    for name in ("greet", "count"):
        jobs.enqueue_many((name, n, {"priority": n % 3, "correlation_id": f"c{n}"}) for n in range(number + 4))
        jobs.enqueue_many((name, n, {"delay": 3600}) for n in range(number))
    for claim in jobs.claim("gone", limit=3):
        jobs.complete(claim)
    for claim in jobs.claim("gone", limit=2):
        jobs.fail(claim, ValueError("no"))


def _explained(server: Any, statements: list[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    found = []
    for sql in dict.fromkeys(statements):
        if sql.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            server.execute(f"EXPLAIN {sql}")
            rows = [row for row in server.fetchall() if row["select_type"] != "INSERT"]
            found.append((sql, rows))
    return found


@pytest.mark.parametrize("number", [5, 400])
def test_what_locks_rows_goes_by_an_index(
    jobs: Jobs, server: Any, sent: list[str], statistics: Callable[[Any], None], number: int
) -> None:
    _fill(jobs, number)
    statistics(server)
    sent.clear()
    claims = jobs.claim("w1", limit=8, lease=0.000001)
    jobs.storage.settle([])
    jobs.complete(claims[0])
    jobs.fail(claims[1], ValueError("no"))
    jobs.storage.renew("w1", [(claim.id, claim.attempt) for claim in claims[2:4]], 30)
    jobs.admin.cancel(claims[2].id)
    jobs.admin.cancel(jobs.enqueue("greet", delay=60).id)
    jobs.storage.sweep()
    writing = [(sql, rows) for sql, rows in _explained(server, sent) if "UPDATE" in sql or "DELETE" in sql]
    assert {word for sql, _ in writing for word in ("SKIP LOCKED", "'processing'", "'cancelled'") if word in sql} == {
        "SKIP LOCKED",
        "'processing'",
        "'cancelled'",
    }
    scans = {sql: row for sql, rows in writing for row in rows if row["table"] in LARGE and row["type"] in SCANS}
    assert scans == {}


def test_a_claim_reads_no_more_than_it_takes(jobs: Jobs, server: Any, sent: list[str]) -> None:
    _fill(jobs, 200)
    sent.clear()
    jobs.claim("w1", limit=3)
    [head, *_] = [sql for sql in sent if "SKIP LOCKED" in sql]
    server.execute(f"EXPLAIN {head}")
    [step] = server.fetchall()
    assert step["key"] == "ix_sloppy_jobs_claim"
    assert "filesort" not in step["Extra"]


@pytest.mark.parametrize("number", [5, 400])
def test_leases_that_have_ended_are_found_without_the_others(
    jobs: Jobs,
    server: Any,
    sent: list[str],
    statistics: Callable[[Any], None],
    number: int,
    eventually: Callable[..., Any],
) -> None:
    _fill(jobs, number)
    jobs.claim("w1", limit=number, lease=3600)
    jobs.claim("w2", limit=1, lease=0.000001)
    statistics(server)
    sent.clear()
    # Leases differ by some milliseconds, so that a claim whose answer was lost is recognised.
    eventually(lambda: jobs.storage.sweep().expired)
    [expired] = [sql for sql in sent if "SKIP LOCKED" in sql and "locked_until <" in sql]
    server.execute(f"EXPLAIN {expired}")
    [step] = server.fetchall()
    assert (step["key"], step["type"]) == ("ix_sloppy_jobs_list", "range")
    assert "filesort" not in step["Extra"]


def test_lists_follow_their_indexes(jobs: Jobs, server: Any, sent: list[str]) -> None:
    # So many that a look at a thousand of them is clearly less than a look at all.
    _fill(jobs, 4000)
    _gathered(server)
    sent.clear()
    admin = jobs.admin
    for status in ("queued", "scheduled", "succeeded"):
        page = admin.list_jobs(status=status, page_size=5)
        admin.list_jobs(status=status, page_size=5, cursor=page.next_cursor)
    admin.list_jobs(correlation_id="c1")
    admin.overview()
    admin.list_queues()
    reads = _explained(server, sent)
    scans = {sql: row for sql, rows in reads for row in rows if row["table"] in LARGE and row["type"] == "ALL"}
    assert scans == {}
    sorts = {
        sql: row
        for sql, rows in reads
        for row in rows
        if row["table"] == "sloppy_jobs" and "filesort" in (row["Extra"] or "")
    }
    assert sorts == {}
