"""What a purge leaves although it is old: results that somebody may read, and jobs whose keys are reserved."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sloppyjobs.domain.dependencies import After
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import NO_RETRY
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count

DAY = timedelta(days=1)


@pytest.fixture
def family(jobs: Jobs) -> Jobs:
    """Jobs whose handlers answer with what their parents have answered."""
    jobs.define("parent", lambda ctx, payload: {"rows": payload})
    jobs.define("child", lambda ctx, payload: sum(one["rows"] for one in dict(ctx.parents).values()))
    jobs.define("broken", _fail, retry=NO_RETRY)
    return jobs


def _fail(ctx: object, payload: object) -> None:
    raise ConnectionError("no")


def _clean(jobs: Jobs, clock: FakeClock, days: int) -> int:
    """So many days later, everything that is over is deleted and purged; how many were."""
    clock.advance(days * DAY)
    jobs.admin.cleanup(ages=dict.fromkeys(("succeeded", "cancelled"), DAY))
    clock.advance(DAY + timedelta(seconds=1))
    return jobs.admin.purge().jobs


def _run(jobs: Jobs) -> None:
    while jobs.create_worker().run_once():
        pass


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_parent_is_kept_while_its_child_waits_for_another_one(
    family: Jobs, clock: FakeClock, asked_first: bool
) -> None:
    early, late = family.enqueue("parent", 2), family.enqueue("parent", 3, delay=30 * DAY)
    if not asked_first:
        _run(family)
    child = family.enqueue("child", depends_on=[early, After(late, on="always")])
    _run(family)
    assert _clean(family, clock, 10) == 0
    assert family.get(early.id).status == "deleted"
    clock.advance(20 * DAY)
    _run(family)
    assert family.get(child.id).result == 5
    assert (_clean(family, clock, 8), count(family)) == (3, 0)


def test_a_parent_is_kept_for_a_child_that_is_dead_and_may_be_retried(family: Jobs, clock: FakeClock) -> None:
    parent = family.enqueue("parent", 2)
    child = family.enqueue("broken", depends_on=parent)
    _run(family)
    assert (family.get(child.id).status, _clean(family, clock, 10)) == ("dead", 0)
    family.admin.retry(child.id)
    assert [result for _, _, result in family.storage.dependencies.parent_results(child.id)] == ['{"rows":2}']
    family.admin.cancel(child.id)
    assert (_clean(family, clock, 10), count(family)) == (2, 0)


def test_jobs_that_are_kept_do_not_hide_those_that_go(family: Jobs, clock: FakeClock) -> None:
    parents = family.enqueue_many([("parent", 1)] * 5)
    family.enqueue("child", depends_on=[*parents, family.enqueue("parent", delay=300 * DAY)])
    plain: list[Job] = family.enqueue_many([("parent", 1)] * 5)
    _run(family)
    clock.advance(8 * DAY)
    family.admin.cleanup()
    clock.advance(2 * DAY)
    done = [family.admin.purge(limit=2) for _ in range(4)]
    assert ([one.jobs for one in done], done[-1].more) == ([2, 2, 1, 0], False)
    assert {row.id for row in family.admin.list_jobs(name="parent")}.isdisjoint(job.id for job in plain)


def test_a_key_that_is_reserved_for_longer_than_jobs_are_kept_stays_reserved(family: Jobs, clock: FakeClock) -> None:
    first = family.enqueue("parent", business_key="month", unique_for=30 * DAY)
    pending = family.enqueue("parent", business_key="pending", unique="pending", unique_for=30 * DAY)
    _run(family)
    assert _clean(family, clock, 10) == 0
    assert family.enqueue("parent", business_key="month", unique_for=30 * DAY).id == first.id
    assert family.enqueue("parent", business_key="pending").id == pending.id
    clock.advance(20 * DAY)
    assert family.admin.purge().jobs == 2
    assert not family.enqueue("parent", business_key="month").existing
