"""A pool without a free connection is one error of ours on every public path, and no schedule is blamed for it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import TimeoutError as PoolTimeout
from test_unavailable import READS, WRITES

from sloppyjobs import Jobs, StorageUnavailable
from sloppyjobs.domain.model import Claim


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    """An application's, with a single connection."""
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    made = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    yield made
    made.dispose()


@pytest.fixture
def jobs(engine: Engine) -> Jobs:
    made = Jobs(engine)
    made.define("greet", lambda _ctx, _payload: None)
    made.init()
    return made


@pytest.fixture
def claim(jobs: Jobs) -> Claim:
    jobs.enqueue("greet")
    (claim,) = jobs.claim("worker")
    return claim


def test_a_pool_without_a_free_connection_is_one_error_and_nothing_was_changed(
    jobs: Jobs, claim: Claim, engine: Engine
) -> None:
    # A worker has connections of its own; the first use of a schema looks for it on one of them.
    calls = {name: call for name, call in (READS | WRITES).items() if name not in ("init", "run_once")}
    other: dict[str, BaseException | None] = {}
    with engine.connect():
        for name, call in calls.items():
            try:
                call(jobs, claim)
                other[name] = None
            except StorageUnavailable as error:
                assert error.code == "SLOPPY_E_JOBS_STORAGE_UNAVAILABLE"
                assert error.maybe_done is False and "nothing was changed" in str(error), name
                assert isinstance(error, PoolTimeout) and "QueuePool limit of size 1" in str(error), name
                assert str(pickle.loads(pickle.dumps(error))) == str(error)
            except Exception as error:
                other[name] = error
    assert other == {}
    assert jobs.enqueue("greet").status == "queued"


def test_no_schedule_is_set_aside_because_a_pool_was_exhausted(jobs: Jobs, engine: Engine) -> None:
    made = jobs.recurring("often", "greet", every=1)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sloppy_recurring_jobs SET next_run_at = now() - interval '1 second'")
    find = jobs.storage.firing.due

    def due_then_exhausted(limit: int) -> list[str]:
        found = find(limit)
        held.append(engine.connect())
        return found

    held: list[object] = []
    jobs.storage.firing.due = due_then_exhausted  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        jobs.tick_recurring()
    for one in held:
        one.close()  # type: ignore[attr-defined]
    assert [one.last_error for one in jobs.admin.list_recurring()] == [None]
    assert jobs.storage.firing.fire(made.id, lambda due, now: (_ for _ in ()).throw(ValueError)) == []
