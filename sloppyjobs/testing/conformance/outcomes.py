"""Attempts and their ends, as the tests of settlements and fences need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sloppyjobs.domain.model import Claim, Settlement
from sloppyjobs.domain.states import Failed, Failure, Outcome, decide
from sloppyjobs.jobs import Jobs

Settle = Callable[[Sequence[Settlement]], set[str]]


def claimed(jobs: Jobs, how_many: int = 1, worker: str = "w1") -> list[Claim]:
    """So many new jobs in the hands of a worker."""
    if jobs.definitions.get("greet") is None:
        jobs.declare("greet")
    jobs.enqueue_many([("greet", number) for number in range(how_many)])
    return jobs.claim(worker, limit=how_many)


def decided(claim: Claim, outcome: Outcome, seconds: float | None = None) -> Settlement:
    """What the outcome means for the claim, ready to be written."""
    decision = decide(claim.attempt, claim.job.max_attempts, outcome)
    return Settlement(claim.id, claim.attempt, claim.worker_id, decision, seconds)


def cancel(jobs: Jobs, job_id: str) -> None:
    """What an operator does to a job that is not wanted any more."""
    jobs.storage.inspection.cancel(job_id)


def failed(delay: float = 5, **how: bool) -> Failed:
    """A failure with everything that is kept of one."""
    return Failed(Failure("CODE", "what happened", "SomeError", "module:function", "the traceback"), delay, **how)


@pytest.fixture(params=["settle", "turn"])
def settle_batch(jobs: Jobs, request: pytest.FixtureRequest) -> Settle:
    """Both ways in which outcomes are written: by themselves, and as a part of a worker's turn."""
    if request.param == "settle":
        return jobs.storage.settle
    return lambda settlements: jobs.storage.turn(settlements, None)[0]
