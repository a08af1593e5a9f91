"""Signals in the caller's transaction: the job goes on when that commits, and not when it is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.orm import Session

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance.stepping import names, run, stepped
from sloppyjobs.testing.conformance.suspending import status, waits


@pytest.fixture(params=["connection", "session"])
def caller(jobs: Jobs, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A transaction of the caller's, as it is passed to ``signal``."""
    made = Session(jobs.storage.engine) if request.param == "session" else jobs.storage.engine.connect()
    with made:
        yield {request.param: made}


def _end(caller: dict[str, Any], how: str) -> None:
    [transaction] = caller.values()
    getattr(transaction, how)()


def test_a_signal_is_rolled_back_with_the_callers_work(jobs: Jobs, caller: dict[str, Any]) -> None:
    job = stepped(jobs, waits)
    run(jobs)
    assert jobs.signal(job, "approved", 1, **caller)
    _end(caller, "rollback")
    assert run(jobs) == 0
    assert (status(jobs, job), names(jobs, job)) == (("waiting", "signal"), [("signal", "approved", "waiting")])
    assert jobs.signal(job, "approved", 2)


def test_a_signal_wakes_the_job_with_the_callers_commit(jobs: Jobs, caller: dict[str, Any]) -> None:
    job = stepped(jobs, waits)
    run(jobs)
    assert jobs.signal(job, "approved", {"by": "ada"}, **caller)
    assert status(jobs, job) == ("waiting", "signal")
    _end(caller, "commit")
    assert run(jobs) == 1
    assert jobs.get(job.id).result == {"by": "ada"}


def test_a_signal_finds_a_job_of_the_same_transaction(jobs: Jobs, caller: dict[str, Any]) -> None:
    jobs.define("work", waits)
    job = jobs.enqueue("work", business_key="order:1", **caller)
    assert jobs.signal(business_key="order:1", name="approved", payload=1, **caller)
    assert not jobs.signal(job, "approved", 2, **caller), "the first one wins"
    _end(caller, "commit")
    run(jobs)
    assert jobs.get(job.id).result == 1


def test_a_refused_signal_leaves_the_callers_transaction_usable(jobs: Jobs, caller: dict[str, Any]) -> None:
    done = stepped(jobs, lambda ctx, payload: None)
    run(jobs)
    kept = jobs.enqueue("work", **caller)
    for target, error in ((done.id, errors.InvalidTransition), ("job_unknown", errors.UnknownJob)):
        with pytest.raises(error):
            jobs.signal(target, "approved", **caller)
    _end(caller, "commit")
    assert (names(jobs, done), jobs.get(kept.id).status) == ([], "queued")
