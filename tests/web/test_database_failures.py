"""What a database cannot do is told by what the library says of it, in the words of the pages."""

from __future__ import annotations

import pickle

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from sloppyjobs import Jobs, StorageUnavailable, storage
from sloppyjobs.storage import unavailable as store_errors
from webui.failures import explain


def told(error: StorageUnavailable) -> tuple[bool, bool, int, str]:
    """What the error says, and how a page answers; also after its way from another process."""
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.read_only, copied.timed_out) == (error.read_only, error.timed_out)
    return error.read_only, error.timed_out, *explain(copied)[:2]


def test_a_database_that_can_only_be_read_is_no_outage(postgres_url: str) -> None:
    joined = "&" if "?" in postgres_url else "?"
    jobs = Jobs(f"{postgres_url}{joined}options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(StorageUnavailable) as raised:
        jobs.admin.pause_queue("default")
    assert told(raised.value) == (True, False, 403, "READ_ONLY_DATABASE")
    jobs.storage.close()


def test_a_right_that_the_database_refuses_is_told_with_what_names_it() -> None:
    refused = ProgrammingError(None, None, Exception("permission denied for table sloppy_jobs"))
    explained = explain(store_errors.StorageUnavailable.of(refused, maybe_done=False, denied=True))
    assert explained[:2] == (403, "DATABASE_RIGHTS")
    assert "doctor" in str(explained)


def test_a_command_that_the_database_stops_took_too_long(postgres_url: str) -> None:
    store = storage.postgres(postgres_url)

    def slow(connection: Connection) -> None:
        connection.execute(text("SET LOCAL statement_timeout = 50"))
        connection.execute(text("SELECT pg_sleep(5)"))

    with pytest.raises(StorageUnavailable) as raised:
        store.database.write(slow)
    assert told(raised.value) == (False, True, 503, "SLOPPY_E_JOBS_READ_TIMEOUT")
    store.close()


def test_a_database_that_is_away_is_neither() -> None:
    jobs = Jobs("postgresql://nobody@127.0.0.1:1/nowhere?connect_timeout=2")
    with pytest.raises(StorageUnavailable) as raised:
        jobs.get("job_1")
    assert told(raised.value) == (False, False, 503, "DATABASE_DOWN")
    jobs.storage.close()


def test_an_error_that_the_library_has_no_name_for_shows_nothing_of_itself(postgres_url: str) -> None:
    store = storage.postgres(postgres_url)
    with pytest.raises(ProgrammingError) as raised:
        store.database.read(lambda connection: connection.execute(text("SELECT secret FROM nowhere")).all())
    explained = explain(raised.value)
    assert (explained.status, explained.code) == (503, "DATABASE_DOWN")
    assert "nowhere" not in str(explained)
    store.close()
