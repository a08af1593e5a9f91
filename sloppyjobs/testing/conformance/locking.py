"""Named locks: one holder at a time, until it lets go or its time is up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import told_apart


def test_a_lock_has_one_holder(jobs: Jobs) -> None:
    assert jobs.locks("a").acquire("nightly")
    assert not jobs.locks("b").acquire("nightly")
    assert jobs.locks("b").acquire("daily")


def test_a_lock_can_be_taken_when_its_time_is_up(jobs: Jobs, clock: FakeClock) -> None:
    a, b = jobs.locks("a"), jobs.locks("b")
    a.acquire("nightly", ttl=30)
    clock.advance(29.999)
    assert not b.acquire("nightly", ttl=30)
    clock.advance(0.001)
    assert b.acquire("nightly", ttl=30)
    assert not a.acquire("nightly")


def test_a_holder_that_acquires_again_prolongs(jobs: Jobs, clock: FakeClock) -> None:
    a, b = jobs.locks("a"), jobs.locks("b")
    a.acquire("nightly", ttl=30)
    clock.advance(20)
    assert a.acquire("nightly", ttl=timedelta(seconds=30))
    clock.advance(20)
    assert not b.acquire("nightly")


def test_a_lock_is_extended_by_its_holder_while_it_is_held(jobs: Jobs, clock: FakeClock) -> None:
    a, b = jobs.locks("a"), jobs.locks("b")
    assert not a.extend("nightly")
    a.acquire("nightly", ttl=30)
    clock.advance(20)
    assert (a.extend("nightly", ttl=30), b.extend("nightly", ttl=30)) == (True, False)
    [row] = jobs.storage.inspection.locks()
    assert (row.owner, row.locked_until) == ("a", clock.now() + timedelta(seconds=30))


def test_a_lock_that_has_run_out_is_not_extended(jobs: Jobs, clock: FakeClock) -> None:
    a = jobs.locks("a")
    a.acquire("nightly", ttl=30)
    clock.advance(30)
    assert not a.extend("nightly")


def test_a_lock_is_released_by_its_holder_alone(jobs: Jobs) -> None:
    a, b = jobs.locks("a"), jobs.locks("b")
    a.acquire("nightly")
    assert not b.release("nightly")
    assert not b.acquire("nightly")
    assert a.release("nightly")
    assert not a.release("nightly")
    assert b.acquire("nightly")


def test_a_block_holds_a_lock_and_lets_go(jobs: Jobs) -> None:
    with jobs.lock("nightly"):
        assert not jobs.locks("b").acquire("nightly")
    assert jobs.storage.inspection.locks() == []


def test_a_block_lets_go_when_it_raises(jobs: Jobs) -> None:
    with pytest.raises(ZeroDivisionError), jobs.lock("nightly"):
        raise ZeroDivisionError
    assert jobs.locks("b").acquire("nightly")


def test_a_block_conflicts_with_every_other_block_even_of_its_own_process(jobs: Jobs) -> None:
    with jobs.lock("nightly"):
        with pytest.raises(errors.LockConflict, match="nightly"), jobs.lock("nightly"):
            pytest.fail("two blocks hold the lock")
        assert len(jobs.storage.inspection.locks()) == 1


def test_a_block_can_extend_its_lock(jobs: Jobs, clock: FakeClock) -> None:
    with jobs.lock("nightly", ttl=30) as held:
        clock.advance(20)
        assert held.extend("nightly", ttl=30)
        clock.advance(20)
        assert not jobs.locks("b").acquire("nightly")


def test_a_block_that_outlived_its_lock_leaves_the_next_holder_alone(jobs: Jobs, clock: FakeClock) -> None:
    with jobs.lock("nightly", ttl=30) as held:
        clock.advance(31)
        assert jobs.locks("b").acquire("nightly", ttl=30)
        assert not held.extend("nightly")
    [row] = jobs.storage.inspection.locks()
    assert row.owner == "b"


def test_locks_of_every_name_are_told_apart(jobs: Jobs) -> None:
    names = told_apart(jobs, ["a", "A", "a ", "a/b", "it's", '"a"', "%s", "🎉", "\u202ea", "n" * 128])
    assert all(jobs.locks(f"owner of {index}").acquire(name) for index, name in enumerate(names))
    assert not any(jobs.locks("another").acquire(name) for name in names)


def test_a_lock_that_cannot_work_is_refused(jobs: Jobs) -> None:
    for name, ttl in (("", 30), ("n" * 129, 30), ("a\0", 30), ("a", 0), ("a", -1), ("a", float("inf"))):
        with pytest.raises(errors.InvalidOption):
            jobs.locks("owner").acquire(name, ttl)
    with pytest.raises(errors.InvalidOption):
        jobs.locks("")


def test_of_threads_that_acquire_at_once_one_wins(live_jobs: Jobs) -> None:
    barrier = threading.Barrier(8)

    def acquire(number: int) -> bool:
        barrier.wait()
        return live_jobs.locks(f"owner-{number}").acquire("nightly")

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(acquire, range(8))) == 1


def test_of_threads_that_take_an_expired_lock_over_one_wins(jobs: Jobs, clock: FakeClock) -> None:
    jobs.locks("gone").acquire("nightly", ttl=1)
    clock.advance(2)
    barrier = threading.Barrier(8)

    def acquire(number: int) -> bool:
        barrier.wait()
        return jobs.locks(f"owner-{number}").acquire("nightly", ttl=30)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(acquire, range(8))) == 1
