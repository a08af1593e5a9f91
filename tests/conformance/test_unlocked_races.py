"""Writers that have read the same jobs: without row locks the conditional update alone decides whose each job is."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from plain_stores import UnlockedPostgres, UnlockedSqlite, database_by
from sqlalchemy import make_url

from sloppyjobs import Jobs
from sloppyjobs.domain.states import Outcome, Released, Succeeded, Suspended
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.storage import SqlStore
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.outcomes import claimed, decided
from sloppyjobs.testing.conformance.records import check_every_history

WAIT = 30


class Meeting:
    """Lets threads meet at a place in the code, each of them once."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)
        self._been = threading.local()
        self.reached = threading.Event()

    def arrive(self) -> None:
        """Wait for the others, the first time that this thread comes by."""
        if not hasattr(self._been, "here"):
            self._been.here = True
            self.reached.set()
            self._barrier.wait(WAIT)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The databases of which there is a store without locks."""
    url: str = request.getfixturevalue("postgres_url" if request.param == "postgres" else "ready_sqlite_url")
    return url


@pytest.fixture
def make_unlocked(database_url: str) -> Iterator[Callable[..., SqlStore]]:
    """Makes stores without locks, which meet after they have read and before they write."""
    made: list[SqlStore] = []
    kind = UnlockedSqlite if database_url.startswith("sqlite") else UnlockedPostgres

    def make(clock: FakeClock | None = None, meeting: Meeting | None = None, at: str = "list_param") -> SqlStore:
        """``at``: the method of a part of the store that the transaction calls first after its read."""
        store = SqlStore(database_by(kind, make_url(database_url), clock))
        if meeting is not None:
            owner: Any = {"list_param": store.dialect, "to_driver": store.database, "_write": store.settlement}[at]
            plain = getattr(owner, at)
            setattr(owner, at, lambda *given, **named: (meeting.arrive(), plain(*given, **named))[1])
        made.append(store)
        return store

    yield make
    for one in made:
        one.close()


def _together(*works: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(WAIT) for future in [pool.submit(work) for work in works]]


@pytest.mark.parametrize("workers", [("w1", "w2"), ("same", "same")], ids=["two workers", "one id twice"])
def test_of_two_claims_that_read_the_same_jobs_each_job_goes_to_one(
    make_unlocked: Callable[..., SqlStore], workers: tuple[str, str]
) -> None:
    clock, meeting = FakeClock("2030-01-01T12:00:00Z"), Meeting(2)
    jobs = Jobs(make_unlocked(clock))
    jobs.declare("greet")
    written = jobs.enqueue_many([("greet",)] * 4)
    claimants = [Jobs(make_unlocked(clock, meeting)) for _ in workers]
    shares = _together(
        *(lambda j=j, w=w: j.claim(w, limit=3) for j, w in zip(claimants, workers, strict=True))  # type: ignore[misc]
    )
    ids = [claim.id for share in shares for claim in share]
    assert Counter(ids) == Counter(job.id for job in written), "three for one, and what was left for the other"
    assert sorted(len(share) for share in shares) == [1, 3]
    assert all(jobs.complete(claim) for share in shares for claim in share)
    check_every_history(jobs)


def test_a_claim_that_lost_some_of_its_jobs_keeps_the_others(make_unlocked: Callable[..., SqlStore]) -> None:
    clock, meeting = FakeClock("2030-01-01T12:00:00Z"), Meeting(2)
    jobs = Jobs(make_unlocked(clock))
    jobs.declare("greet")
    first, *rest = jobs.enqueue_many([("greet",)] * 3)
    claimant = Jobs(make_unlocked(clock, meeting))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(claimant.claim, "w1", limit=3)
        assert meeting.reached.wait(WAIT)
        jobs.claim("w2", limit=1)
        meeting.arrive()
        assert [claim.id for claim in waiting.result(WAIT)] == [job.id for job in rest]
    assert jobs.get(first.id).locked_by == "w2"
    check_every_history(jobs)


def test_of_two_sweeps_that_found_the_same_jobs_due_each_is_promoted_once(
    make_unlocked: Callable[..., SqlStore],
) -> None:
    clock, meeting = FakeClock("2030-01-01T12:00:00Z"), Meeting(2)
    jobs = Jobs(make_unlocked(clock))
    jobs.declare("greet")
    jobs.enqueue_many([("greet", None, {"delay": 5})] * 4)
    clock.advance(5)
    swept = _together(*(make_unlocked(clock, meeting, "to_driver").sweep for _ in range(2)))
    assert sorted(one.promoted for one in swept) == [0, 4]
    check_every_history(jobs)


@pytest.mark.parametrize("second", [Succeeded('"second"'), Released()], ids=["a success", "a release"])
def test_of_two_settlements_that_passed_the_same_fence_one_is_accepted(
    make_unlocked: Callable[..., SqlStore], second: Outcome
) -> None:
    clock, meeting = FakeClock("2030-01-01T12:00:00Z"), Meeting(2)
    jobs = Jobs(make_unlocked(clock))
    [claim] = claimed(jobs)
    outcomes = (Succeeded('"first"'), second)
    stores = [make_unlocked(clock, meeting, "_write") for _ in outcomes]
    accepted = _together(
        *(
            lambda store=store, outcome=outcome: store.settle([decided(claim, outcome)])  # type: ignore[misc]
            for store, outcome in zip(stores, outcomes, strict=True)
        )
    )
    assert sorted(map(len, accepted)) == [0, 1]
    check_every_history(jobs)


def test_many_threads_claim_every_job_once(make_unlocked: Callable[..., SqlStore]) -> None:
    jobs = Jobs(make_unlocked())
    jobs.declare("greet")
    written = jobs.enqueue_many([("greet", {}, {"queue": f"q{number % 3}"}) for number in range(200)])
    barrier = threading.Barrier(8)

    def work(number: int) -> list[str]:
        taken: list[str] = []
        barrier.wait(WAIT)
        while batch := jobs.claim(f"w{number % 4}", queues=["*"], limit=7):
            taken += [claim.id for claim in batch]
        return taken

    shares = _together(*(lambda n=n: work(n) for n in range(8)))  # type: ignore[misc]
    assert Counter(id for share in shares for id in share) == Counter(job.id for job in written)
    check_every_history(jobs)


def test_a_signal_that_has_read_a_running_job_wakes_it_when_it_was_suspended_meanwhile(
    make_unlocked: Callable[..., SqlStore], database_url: str
) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("a transaction that has written lets no other write before it ends")
    clock, meeting = FakeClock("2030-01-01T12:00:00Z"), Meeting(2)
    jobs = Jobs(make_unlocked(clock))
    [claim] = claimed(jobs)
    assert jobs.storage.steps.ask("w1", (claim.id, 1), StepKind.SIGNAL, "approved", None, 1) is not None
    sender = make_unlocked(clock)
    plain = sender.suspended.go_on
    sender.suspended.go_on = lambda *given: (meeting.arrive(), plain(*given))[1]  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(Jobs(sender).signal, claim.id, "approved", 1)
        assert meeting.reached.wait(WAIT)
        assert jobs.storage.settle([decided(claim, Suspended(60.0, "waits"))])
        assert jobs.get(claim.id).status == "waiting", "the settlement has not seen the signal"
        meeting.arrive()
        assert sending.result(WAIT)
    assert jobs.get(claim.id).status == "queued"
    check_every_history(jobs)


def test_the_lease_of_a_job_that_ends_meanwhile_is_not_renewed(make_unlocked: Callable[..., SqlStore]) -> None:
    jobs, other = Jobs(make_unlocked()), make_unlocked()
    jobs.declare("work")
    jobs.enqueue("work")
    [claim] = jobs.claim("w1")
    plain, ended = other.database.to_driver, threading.Event()

    def meanwhile(instant: Any) -> Any:
        if not ended.is_set():
            ended.set()
            assert jobs.complete(claim)
        return plain(instant)

    other.database.to_driver = meanwhile  # type: ignore[method-assign]
    other.leases.renew("w1", [(claim.id, claim.attempt)], 60)
    assert ended.is_set()
    check_every_history(jobs)
