"""A store without any database passes the parts of the conformance suite that judge its ports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from memory_state import State
from memory_store import MemoryStore, SystemClock

from sloppyjobs import Jobs
from sloppyjobs.storage.clock import Clock
from sloppyjobs.testing.conformance.claim import *  # noqa: F403
from sloppyjobs.testing.conformance.enqueue import *  # noqa: F403
from sloppyjobs.testing.conformance.leases import *  # noqa: F403
from sloppyjobs.testing.conformance.locks import *  # noqa: F403
from sloppyjobs.testing.conformance.run import *  # noqa: F403
from sloppyjobs.testing.conformance.settle import *  # noqa: F403


@pytest.fixture
def make_storage() -> Callable[..., MemoryStore]:
    """Makes stores over one state."""
    states: list[State] = []

    def make(clock: Clock | None = None) -> MemoryStore:
        if not states:
            states.append(State(clock or SystemClock()))
        return MemoryStore(clock, states[0])

    return make


def test_a_worker_with_all_its_threads_runs_over_it(eventually: Callable[..., object]) -> None:
    jobs = Jobs(MemoryStore())
    seen: list[int] = []
    jobs.define("note", lambda ctx, payload: seen.append(payload))
    worker = jobs.create_worker(concurrency=2, maintenance=False)
    worker.start()
    try:
        jobs.enqueue_many([("note", number) for number in range(50)])
        eventually(lambda: len(seen) == 50)
    finally:
        assert worker.stop()
    assert sorted(seen) == list(range(50))
    assert {job.status for job in jobs.storage.inspection.jobs()} == {"succeeded"}
