"""Queues whose jobs rise in priority while they wait: set by operators, declared in code, in lines for permits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sloppyjobs import errors
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports import Store
from sloppyjobs.testing.conformance.limiting import claim_all, enqueue_limited


def test_jobs_of_a_queue_that_ages_rise_in_priority(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    jobs.admin.set_queue_ageing("default", 60, most=3, actor="ada")
    old = jobs.enqueue("work", priority=1)
    other = jobs.enqueue("work", queue="other")
    clock.advance(130)
    urgent = jobs.enqueue("work", priority=2)
    assert jobs.storage.ageing.raise_priorities(100) == 1
    assert jobs.get(old.id).priority == 3
    assert jobs.storage.ageing.raise_priorities(100) == 0
    clock.advance(3600)
    jobs.storage.ageing.raise_priorities(100)
    assert [jobs.get(job.id).priority for job in (old, urgent, other)] == [4, 5, 0]
    jobs.admin.set_queue_ageing("default", None)
    assert jobs.admin.queue_ageing("default") is None
    clock.advance(3600)
    assert jobs.storage.ageing.raise_priorities(100) == 0
    for every, most in ((0, 1), (-1, 1), (60, 0)):
        with pytest.raises(errors.InvalidOption):
            jobs.admin.set_queue_ageing("default", every, most)


def test_a_queue_and_the_explanation_of_a_job_say_how_priorities_rise(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work", priority=1)
    assert "ageing" not in [reason.code for reason in jobs.admin.explain(job.id).reasons]
    jobs.admin.set_queue_ageing("default", 60, most=3)
    queue = jobs.admin.get_queue("default")
    assert (queue.ageing_seconds, queue.ageing_most) == (60.0, 3)
    rule = "Priorities in its queue rise by one every 60 s, by 3 at most."
    assert _ageing(jobs, job.id) == [rule]
    clock.advance(130)
    jobs.storage.ageing.raise_priorities(100)
    assert _ageing(jobs, job.id) == [f"Its priority was 1 and has risen to 3 while it waited. {rule}"]
    jobs.admin.set_queue_ageing("default", None)
    queue = jobs.admin.get_queue("default")
    assert (queue.ageing_seconds, queue.ageing_most) == (None, None)
    assert _ageing(jobs, job.id) == ["Its priority was 1 and has risen to 3 while it waited."]


def _ageing(jobs: Jobs, id: str) -> list[str]:
    return [reason.text for reason in jobs.admin.explain(id).reasons if reason.code == "ageing"]


def test_what_takes_the_place_of_an_aged_job_has_the_priority_that_it_was_enqueued_with(
    jobs: Jobs, clock: FakeClock
) -> None:
    jobs.declare("work")
    jobs.admin.set_queue_ageing("default", 60, most=3)
    job = jobs.enqueue("work", priority=1)
    for _ in range(3):
        clock.advance(600)
        jobs.storage.ageing.raise_priorities(100)
        assert (jobs.get(job.id).priority, jobs.get(job.id).base_priority) == (4, 1)
        job = jobs.replace(job)
        assert (job.priority, job.base_priority) == (1, None)
    jobs.storage.ageing.raise_priorities(100)
    [claim] = jobs.claim("worker-1")
    jobs.complete(claim)
    jobs.admin.delete(job.id)
    clock.advance(1)
    jobs.admin.purge(older_than=0, archive=True)
    assert jobs.admin.search_archive(name="work").items[0].priority == 4
    assert jobs.get(jobs.admin.restore(job.id).id).priority == 1


def test_a_queue_that_nobody_knows_does_not_age_unless_it_is_created(jobs: Jobs) -> None:
    jobs.declare("work", queue="mail")
    with pytest.raises(errors.UnknownQueue, match="'mial'"):
        jobs.admin.set_queue_ageing("mial", 60)
    with pytest.raises(errors.UnknownQueue):
        jobs.admin.get_queue("mial")
    assert jobs.admin.set_queue_ageing("mail", 60) == (60.0, 10)
    assert jobs.admin.set_queue_ageing("later", 60, create=True) == (60.0, 10)
    assert {entry.target for entry in jobs.admin.audit(action="set_queue_ageing")} == {"mail", "later"}


# In a line for a permit


def test_a_job_that_waits_for_a_permit_rises_and_moves_up_in_its_line(limited: Jobs, clock: FakeClock) -> None:
    limited.admin.set_queue_ageing("slow", 60, most=5, create=True)
    enqueue_limited(limited, 1)
    [running] = limited.claim("worker-1", lease=600)
    [old] = enqueue_limited(limited, 1, queue="slow")
    assert claim_all(limited) == []
    clock.advance(150)
    [urgent] = enqueue_limited(limited, 1, priority=1)
    assert claim_all(limited) == []
    [reason] = _ageing(limited, old.id)
    assert reason == "Priorities in its queue rise by one every 60 s, by 5 at most."
    assert "1 job is ahead" in limited.admin.explain(old.id).reasons[0].text
    assert limited.storage.ageing.raise_priorities(100) == 1
    assert limited.storage.ageing.raise_priorities(100) == 0
    assert (limited.get(old.id).priority, limited.get(urgent.id).priority) == (2, 1)
    assert "next in line" in limited.admin.explain(old.id).reasons[0].text
    assert "1 job is ahead" in limited.admin.explain(urgent.id).reasons[0].text
    assert limited.complete(running)
    [claim] = claim_all(limited)
    assert claim.id == old.id
    assert limited.complete(claim)
    assert [claim.id for claim in claim_all(limited)] == [urgent.id]


def test_parked_jobs_of_other_queues_stay_where_they_are(limited: Jobs, clock: FakeClock) -> None:
    limited.admin.set_queue_ageing("slow", 60, create=True)
    enqueue_limited(limited, 1)
    limited.claim("worker-1", lease=600)
    made = enqueue_limited(limited, 3)
    assert claim_all(limited) == []
    clock.advance(300)
    assert limited.storage.ageing.raise_priorities(100) == 0
    assert [limited.get(job.id).priority for job in made] == [0, 0, 0]


# Declared in code


def _worker_starts(jobs: Jobs) -> None:
    jobs.create_worker(queues=("none",), recurring=False).run_once()


def test_a_worker_writes_how_code_lets_queues_age(jobs: Jobs) -> None:
    jobs.declare_queue("mail", age=60, most=3)
    _worker_starts(jobs)
    queue = jobs.admin.get_queue("mail")
    assert (queue.ageing_seconds, queue.ageing_most) == (60.0, 3)
    assert (queue.ageing_declared, queue.ageing_changed, queue.ageing_vanished) == (True, False, False)
    assert jobs.admin.queue_ageing("mail") == (60.0, 3)
    with pytest.raises(errors.DuplicateJob):
        jobs.declare_queue("mail", age=30)
    for age, most in ((0, 1), (0.5, 1), (None, 1), ("1m", 1), (60, 0), (60, None)):
        with pytest.raises(errors.InvalidOption, match=r"age|most"):
            jobs.declare_queue("other", age=age, most=most)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidOption):
        jobs.declare_queue("", age=60)


def test_what_an_operator_changed_of_a_queue_stays_until_the_code_says_something_else(
    make_storage: Callable[[FakeClock], Store], clock: FakeClock
) -> None:
    jobs = Jobs(make_storage(clock))
    jobs.declare_queue("mail", age=60)
    _worker_starts(jobs)
    for every in (30, None):
        jobs.admin.set_queue_ageing("mail", every)
        again = Jobs(jobs.storage)
        again.declare_queue("mail", age=60)
        _worker_starts(again)
        queue = again.admin.get_queue("mail")
        assert (queue.ageing_seconds, queue.ageing_declared, queue.ageing_changed) == (every, True, True)
    newer = Jobs(jobs.storage)
    newer.declare_queue("mail", age=90)
    _worker_starts(newer)
    queue = newer.admin.get_queue("mail")
    assert (queue.ageing_seconds, queue.ageing_changed) == (90.0, False)


def test_a_queue_that_no_code_declares_any_more_ages_no_more(
    make_storage: Callable[[FakeClock], Store], clock: FakeClock
) -> None:
    before = Jobs(make_storage(clock), application="shop")
    before.declare("work", queue="mail")
    before.declare_queue("mail", age=60)
    _worker_starts(before)
    stranger = Jobs(before.storage, application="other")
    stranger.declare_queue("post", age=60)
    _worker_starts(stranger)
    assert before.admin.queue_ageing("mail") == (60.0, 10), "another application's code says nothing of it"
    job = before.enqueue("work")
    after = Jobs(before.storage, application="shop")
    assert after.declared_queues.sync() == ["mail"]
    queue = after.admin.get_queue("mail")
    assert (queue.ageing_seconds, queue.ageing_declared, queue.ageing_vanished) == (None, False, True)
    assert after.admin.queue_ageing("mail") is None
    clock.advance(600)
    assert after.storage.ageing.raise_priorities(100) == 0
    assert _ageing(after, job.id) == []
    after.admin.set_queue_ageing("mail", 30)
    assert not after.admin.get_queue("mail").ageing_vanished
    assert after.declared_queues.sync() == ["mail"]
    _worker_starts(Jobs(before.storage))
    before.declared_queues.sync()
    queue = before.admin.get_queue("mail")
    assert (queue.ageing_seconds, queue.ageing_vanished, queue.ageing_changed) == (30.0, False, True)
