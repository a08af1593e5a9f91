"""Claiming: exactly the promised order, only what may be taken, and each attempt once."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import attempts, count, events, pause_queue, transitions


def _ids(claims: list[Claim]) -> list[str]:
    return [claim.id for claim in claims]


def test_nothing_due_is_an_empty_list(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet", delay=1)
    assert jobs.claim("w1") == []


def test_a_claim_carries_what_a_worker_needs(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet", timeout=9, metadata={"team": "growth"})
    job = jobs.enqueue("greet", {"name": "Ada"})
    [claim] = jobs.claim("w1", lease=45)
    until = clock.now() + timedelta(seconds=45)
    assert (claim.id, claim.attempt, claim.worker_id, claim.locked_until) == (job.id, 1, "w1", until)
    assert claim.payload == {"name": "Ada"}
    assert (claim.job.status, claim.job.locked_by, claim.job.locked_until) == ("processing", "w1", until)
    assert claim.job == jobs.get(job.id)


def test_a_claim_opens_an_attempt_and_writes_an_event(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    clock.advance(5)
    jobs.claim("w1")
    [attempt] = attempts(jobs, job.id)
    assert (attempt.attempt_number, attempt.worker_id, attempt.status) == (1, "w1", "running")
    assert (attempt.started_at, attempt.finished_at) == (clock.now(), None)
    assert transitions(jobs, job.id) == ["created:queued", "claimed:processing"]
    event = events(jobs, job.id)[1]
    assert (event.worker_id, event.attempt_number, event.created_at) == ("w1", 1, clock.now())


def test_a_claimed_job_is_not_claimed_again(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet")
    assert len(jobs.claim("w1", limit=5)) == 1
    assert jobs.claim("w1") == jobs.claim("w2") == []


def _mixed(jobs: Jobs, clock: FakeClock) -> list[Job]:
    """Jobs of every combination, enqueued in a random order, as they must be claimed."""
    for name in ("a", "b"):
        jobs.declare(name)
    start = clock.now()
    kinds = [
        (priority, minutes, queue, name)
        for priority in (-1, 0, 7)
        for minutes in (0, 5)
        for queue in ("default", "mail")
        for name in ("a", "b")
    ] * 2
    random.Random(7).shuffle(kinds)  # noqa: S311
    written = []
    for priority, minutes, queue, name in kinds:
        clock.advance(1)
        written.append(jobs.enqueue(name, priority=priority, queue=queue, run_at=start - timedelta(minutes=minutes)))
    return sorted(written, key=lambda job: (-job.priority, job.run_at, job.created_at))


def test_jobs_come_by_priority_then_run_time_then_creation(jobs: Jobs, clock: FakeClock) -> None:
    expected = _mixed(jobs, clock)
    assert _ids(jobs.claim("w1", queues=["*"], limit=500)) == [job.id for job in expected]


def test_the_order_is_the_same_one_by_one(jobs: Jobs, clock: FakeClock) -> None:
    expected = _mixed(jobs, clock)
    claimed = [jobs.claim("w1", queues=["*"]) for _ in expected]
    assert [claim.id for [claim] in claimed] == [job.id for job in expected]


def test_the_order_is_the_same_in_named_queues(jobs: Jobs, clock: FakeClock) -> None:
    expected = _mixed(jobs, clock)
    claimed = jobs.claim("w1", queues=["mail", "default"], limit=17) + jobs.claim(
        "w1", queues=["default", "mail"], limit=500
    )
    assert _ids(claimed) == [job.id for job in expected]


def test_the_order_is_the_same_however_jobs_are_spread_over_many_names(jobs: Jobs, clock: FakeClock) -> None:
    names = [f"name-{number}" for number in range(12)]
    for name in names:
        jobs.declare(name)
    chance, start = random.Random(11), clock.now()  # noqa: S311
    # Long runs of one name, then all of them by turns, and then one name beside the others.
    order = [name for name in chance.sample(names, 3) for _ in range(25)] + chance.choices(names, k=40)
    order += chance.choices(names, weights=[30, *[1] * 11], k=35)
    ages = chance.sample(range(1000), len(order))
    items = [
        (name, None, {"run_at": start - timedelta(seconds=age), "priority": int(age % 50 == 0)})
        for name, age in zip(order, sorted(ages, reverse=True), strict=True)
    ]
    expected = sorted(jobs.enqueue_many(items), key=lambda job: (-job.priority, job.run_at))
    claimed = [_ids(jobs.claim("w1", limit=limit)) for limit in (1, 3, 40, 7, 60, 100)]
    assert [len(ids) for ids in claimed] == [1, 3, 40, 7, 60, 39]
    assert [id for ids in claimed for id in ids] == [job.id for job in expected]


def test_jobs_of_one_instant_come_in_the_order_of_their_enqueueing(jobs: Jobs) -> None:
    jobs.declare("greet")
    singles = [jobs.enqueue("greet") for _ in range(20)]
    many = jobs.enqueue_many([("greet",)] * 40)
    assert _ids(jobs.claim("w1", limit=100)) == [job.id for job in (*singles, *many)]


def test_only_the_named_queues_are_claimed_from(jobs: Jobs) -> None:
    jobs.declare("greet")
    mail = jobs.enqueue("greet", queue="mail")
    jobs.enqueue("greet", queue="mailbox", priority=9)
    jobs.enqueue("greet", priority=9)
    assert _ids(jobs.claim("w1", queues=["mail", "unheard-of"], limit=10)) == [mail.id]


def test_the_default_is_the_default_queue(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet", queue="mail", priority=9)
    plain = jobs.enqueue("greet")
    assert _ids(jobs.claim("w1", limit=10)) == [plain.id]


def test_only_the_named_jobs_are_claimed_and_others_are_left_alone(jobs: Jobs) -> None:
    jobs.declare("known")
    jobs.declare("unknown")
    others = [jobs.enqueue("unknown", priority=9) for _ in range(30)]
    mine = [jobs.enqueue("known") for _ in range(3)]
    assert _ids(jobs.claim("w1", names=["known", "unheard-of"], limit=3)) == [job.id for job in mine]
    assert jobs.claim("w1", names=["unheard-of"], limit=3) == []
    assert [jobs.get(job.id) for job in others] == others
    assert count(jobs, "attempts") == 3


def test_a_paused_queue_is_passed_over(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    mail, plain = jobs.enqueue("greet", queue="mail", priority=9), jobs.enqueue("greet")
    pause_queue(jobs, "mail", paused_at=clock.now())
    assert jobs.claim("w1", queues=["mail"]) == []
    assert _ids(jobs.claim("w1", queues=["*"], limit=10)) == [plain.id]
    pause_queue(jobs, "mail", paused_at=None)
    assert _ids(jobs.claim("w1", queues=["*"], limit=10)) == [mail.id]


def test_a_queue_that_is_paused_until_then_comes_back_by_itself(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet", queue="mail")
    pause_queue(jobs, "mail", paused_at=clock.now(), paused_until=clock.now() + timedelta(seconds=60))
    clock.advance(59)
    assert jobs.claim("w1", queues=["mail"]) == []
    clock.advance(1)
    assert _ids(jobs.claim("w1", queues=["mail"])) == [job.id]


def test_a_limit_is_kept(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue_many([("greet", {}, {"queue": queue}) for queue in "abc" for _ in range(5)])
    assert [len(jobs.claim("w1", queues=["*"], limit=6)) for _ in range(4)] == [6, 6, 3, 0]


def test_a_job_is_not_claimed_before_its_time_even_when_the_clock_goes_back(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet")
    clock.advance(-3_600)
    assert jobs.claim("w1") == []
    clock.set(job.run_at)
    assert len(jobs.claim("w1")) == 1


def test_a_claim_survives_json(jobs: Jobs) -> None:
    jobs.declare("greet", metadata={"deep": [1, {"a": None}]})
    jobs.enqueue("greet", {"name": "Ada 🎉"}, correlation_id="c", idempotency_key="k")
    [claim] = jobs.claim("w1")
    restored = Claim.from_json(claim.to_json())
    assert restored == claim
    assert restored == Claim.from_json(claim.to_json().encode())
    assert (restored.payload, restored.retry) == (claim.payload, claim.retry)
    elsewhere = Jobs(jobs.storage)
    assert elsewhere.heartbeat(restored)
    assert elsewhere.complete(restored, "done")
    assert jobs.get(claim.id).result == "done"


def test_threads_that_claim_at_once_share_the_jobs(live_jobs: Jobs) -> None:
    live_jobs.declare("greet")
    written = live_jobs.enqueue_many([("greet", {}, {"queue": f"q{number % 3}"}) for number in range(120)])
    barrier = threading.Barrier(4)

    def work(number: int) -> list[str]:
        taken: list[str] = []
        barrier.wait()
        while batch := live_jobs.claim(f"w{number}", queues=["*"], limit=5):
            taken += _ids(batch)
        return taken

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(work, range(4)))
    claimed = [job_id for share in shares for job_id in share]
    assert sorted(claimed) == sorted(job.id for job in written)
    assert count(live_jobs, "attempts") == 120
