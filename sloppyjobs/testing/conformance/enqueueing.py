"""Enqueueing: what is written, when it is due, and what many jobs at once cost and promise."""

from __future__ import annotations

import threading
from datetime import timedelta, timezone
from typing import Any, cast

import msgspec
import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import NewJob, Terms
from sloppyjobs.domain.retry import Retry
from sloppyjobs.internals import internals
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count, events, row, transitions


def test_a_job_without_a_time_is_queued_now(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job = jobs.enqueue("greet", {"name": "Ada"})
    assert (job.status, job.run_at, job.created_at) == ("queued", clock.now(), clock.now())
    assert jobs.get(job.id) == job


def test_a_delayed_job_is_scheduled_for_then(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    for job in (jobs.enqueue_delayed("greet", {}, 60), jobs.enqueue("greet", delay=timedelta(minutes=1))):
        assert (job.status, job.run_at) == ("scheduled", clock.now() + timedelta(seconds=60))
        assert jobs.get(job.id) == job


def test_a_delay_of_zero_is_now(jobs: Jobs) -> None:
    jobs.declare("greet")
    assert jobs.enqueue("greet", delay=0).status == "queued"


def test_a_job_for_an_instant_is_scheduled_for_it_in_utc(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    when = clock.now() + timedelta(days=1)
    elsewhere = when.astimezone(timezone(timedelta(hours=5, minutes=30)))
    for job in (jobs.enqueue_at("greet", {}, elsewhere), jobs.enqueue("greet", run_at=elsewhere.isoformat())):
        assert (job.status, job.run_at, job.run_at.utcoffset()) == ("scheduled", when, timedelta(0))
        assert jobs.get(job.id) == job


def test_a_job_for_an_instant_in_the_past_is_queued_and_keeps_it(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    when = clock.now() - timedelta(days=1)
    job = jobs.enqueue_at("greet", {}, when)
    assert (job.status, job.run_at) == ("queued", when)


def test_microseconds_survive(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    when = clock.now() + timedelta(microseconds=123_457)
    assert jobs.get(jobs.enqueue_at("greet", {}, when).id).run_at == when


def test_the_definition_gives_the_defaults(jobs: Jobs) -> None:
    retry = Retry(max_attempts=7, backoff="fixed", initial=9)
    jobs.declare("greet", queue="mail", priority=3, timeout=12.5, retry=retry, metadata={"team": "growth"})
    job = jobs.get(jobs.enqueue("greet").id)
    assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("mail", 3, 12.5, 7)
    assert job.metadata == {"team": "growth"}
    assert Retry.from_json(row(jobs, job.id).retry_policy or "") == retry


def test_many_are_written_as_one_is(jobs: Jobs) -> None:
    jobs.declare("greet", metadata={"team": "growth"}, timeout=3)
    payload = {"name": "Åsa \t\n\\ 😀", "n": -(2**63), "deep": [{"none": None}]}
    options: dict[str, Any] = {
        "queue": "später",
        "priority": -5,
        "run_at": "2031-02-03T04:05:06.789012Z",
        "max_attempts": 9,
        "retry": Retry(max_attempts=4, backoff="fixed", initial=0.25),
        "timeout": 0.125,
        "correlation_id": "correlation-ø",
        "metadata": {"ключ": "значение"},
        "principal": "ada@example.org",
    }
    plain: dict[str, Any] = {}
    for given in (plain, options):
        alone = jobs.enqueue("greet", payload, **given)
        first, second = jobs.enqueue_many([("greet", payload, cast(Any, given))] * 2)
        wanted, written = row(jobs, alone.id), row(jobs, second.id)
        assert written._replace(id=alone.id) == wanted
        assert [msgspec.structs.replace(job, id=alone.id) for job in (first, second)] == [alone] * 2
        assert jobs.get(second.id) == second
        assert transitions(jobs, second.id) == transitions(jobs, alone.id)


def test_options_win_over_the_definition(jobs: Jobs) -> None:
    jobs.declare(
        "greet", queue="mail", priority=3, timeout=12.5, retry=Retry(max_attempts=7), metadata={"a": 1, "b": 1}
    )
    job = jobs.enqueue(
        "greet", queue="bulk", priority=-3, timeout=1, retry=Retry(max_attempts=2), metadata={"b": 2}, principal="ada"
    )
    assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("bulk", -3, 1, 2)
    assert (job.metadata, job.principal) == ({"a": 1, "b": 2}, "ada")
    assert jobs.get(job.id) == job


def test_max_attempts_wins_over_the_policy_of_the_same_call(jobs: Jobs) -> None:
    jobs.declare("greet")
    assert jobs.enqueue("greet", retry=Retry(max_attempts=2), max_attempts=9).max_attempts == 9


def test_a_job_begins_with_one_event(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    job, later = jobs.enqueue("greet"), jobs.enqueue("greet", delay=5)
    assert (transitions(jobs, job.id), transitions(jobs, later.id)) == (["created:queued"], ["created:scheduled"])
    assert events(jobs, job.id)[0].created_at == clock.now()


def test_a_queue_is_remembered_when_it_is_first_used(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet", queue="b")
    jobs.enqueue_many([("greet", {}, {"queue": "a"}), ("greet", {}, {"queue": "b"})])
    assert [queue.name for queue in jobs.storage.inspection.queues()] == ["a", "b"]


def test_a_definition_enqueues_itself(jobs: Jobs) -> None:
    greet = jobs.define("greet", lambda ctx, payload: None, queue="mail")
    job = greet.enqueue({"name": "Ada"}, priority=2)
    assert (job.name, job.queue, job.priority) == ("greet", "mail", 2)


def test_many_jobs_are_answered_in_the_command_given(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.declare("leave", queue="exits")
    when = clock.now() + timedelta(hours=1)
    written = jobs.enqueue_many(
        [
            ("leave", {"n": 1}),
            ("greet", {"n": 2}, {"priority": 5, "correlation_id": "c"}),
            ("greet", None, {"run_at": when}),
            ("greet",),
        ]
    )
    assert [(job.name, job.queue, job.status, job.priority) for job in written] == [
        ("leave", "exits", "queued", 0),
        ("greet", "default", "queued", 5),
        ("greet", "default", "scheduled", 0),
        ("greet", "default", "queued", 0),
    ]
    assert [jobs.get(job.id) for job in written] == written
    assert [row(jobs, job.id).payload for job in written] == ['{"n":1}', '{"n":2}', "null", "null"]
    assert [transitions(jobs, job.id) for job in written] == [[f"created:{job.status}"] for job in written]


def test_jobs_that_are_alike_are_written_as_if_one_by_one(live_jobs: Jobs) -> None:
    policy = Retry(max_attempts=7, backoff="fixed")
    live_jobs.declare("greet", queue="mail", priority=3, timeout=12.5, retry=policy, metadata={"a": "✉"})
    value = {"n": 'ü☃ "quoted" \\ \n', "empty": "", "none": None}
    alone = live_jobs.enqueue("greet", value)
    together = live_jobs.enqueue_many([("greet", value)] * 3)
    beside_others = live_jobs.enqueue_many([("greet", value), ("greet", {}, {"delay": 60})])[0]
    assert [live_jobs.get(job.id) for job in together] == together
    first = row(live_jobs, alone.id)
    for job in [*together, beside_others]:
        written = row(live_jobs, job.id)
        now = written.created_at
        assert written == first._replace(id=job.id, run_at=now, created_at=now, updated_at=now)
        assert now >= alone.created_at
        assert transitions(live_jobs, job.id) == ["created:queued"]


def test_many_large_payloads_are_written_as_they_are(jobs: Jobs) -> None:
    jobs.declare("greet")
    values = [{"n": n, "text": str(n % 10) * 1_000_000} for n in range(17)]
    written = jobs.enqueue_many([("greet", value) for value in values])
    assert [claim.payload for claim in jobs.claim("me", limit=20)] == values
    assert [transitions(jobs, job.id)[0] for job in written] == ["created:queued"] * 17


def test_no_jobs_are_many_too(jobs: Jobs) -> None:
    assert jobs.enqueue_many([]) == []


def test_thousands_are_written_at_once(jobs: Jobs) -> None:
    jobs.declare("greet")
    written = jobs.enqueue_many(("greet", {"n": number}) for number in range(3_000))
    assert count(jobs) == count(jobs, "events") == len({job.id for job in written}) == 3_000


def test_thousands_are_written_all_or_none(jobs: Jobs) -> None:
    terms = Terms(name="greet", queue="default")
    new = [NewJob(internals(jobs).ids.new("job"), "1", terms) for _ in range(3_000)]
    without_payload = NewJob(internals(jobs).ids.new("job"), None, Terms(name="greet", queue="default"))  # type: ignore[arg-type]
    # Whether the store refuses it, or the way to it does: thousands were on their way before.
    with pytest.raises(Exception):  # noqa: B017
        jobs.storage.insert_jobs([*new[:2_500], without_payload, *new[2_500:]])
    assert count(jobs) == count(jobs, "events") == 0


def test_one_bad_item_refuses_all_and_is_named(jobs: Jobs) -> None:
    jobs.declare("greet")
    with pytest.raises(errors.InvalidPayload, match=r"items\[2\].*NaN"):
        jobs.enqueue_many([("greet", 1), ("greet", 2), ("greet", float("nan"))])
    with pytest.raises(errors.UnknownJob, match=r"items\[1\].*gone"):
        jobs.enqueue_many([("greet", 1), ("gone", 2)])
    with pytest.raises(errors.InvalidOption, match=r"items\[0\].*no option 'colour'"):
        jobs.enqueue_many([("greet", 1, {"colour": "red"})])
    with pytest.raises(errors.InvalidOption, match=r"items\[0\]"):
        jobs.enqueue_many([("greet", 1, None)])  # type: ignore[list-item]
    with pytest.raises(errors.InvalidOption, match=r"items\[0\]"):
        jobs.enqueue_many(["greet"])  # type: ignore[list-item]
    assert count(jobs) == 0


def test_times_come_from_the_database(live_jobs: Jobs) -> None:
    live_jobs.declare("greet")
    before = live_jobs.storage.clock.now()
    job = live_jobs.enqueue("greet")
    assert before <= job.created_at <= live_jobs.storage.clock.now()
    later = live_jobs.enqueue("greet", delay=60)
    assert later.run_at - later.created_at == timedelta(seconds=60)


def test_an_unknown_id_is_an_error(jobs: Jobs) -> None:
    for job_id in ("job_unknown", "", "x" * 5_000, "nul\0", "\ud800", "🎉", None):
        with pytest.raises(errors.UnknownJob, match="no job has the id"):
            jobs.get(job_id)  # type: ignore[arg-type]
    with pytest.raises(errors.UnknownJob):
        jobs.wait("job_unknown")


def test_waiting_returns_the_finished_job(live_jobs: Jobs) -> None:
    live_jobs.define("add", lambda ctx, payload: sum(payload))
    job = live_jobs.enqueue("add", [1, 2])
    working = threading.Thread(target=live_jobs.create_worker().run_once)
    working.start()
    finished = live_jobs.wait(job.id, timeout=30)
    working.join()
    assert (finished.status, finished.result) == ("succeeded", 3)


def test_waiting_gives_up_and_leaves_the_job_alone(jobs: Jobs) -> None:
    jobs.declare("add")
    job = jobs.enqueue("add")
    with pytest.raises(errors.WaitTimeout, match="queued"):
        jobs.wait(job.id, timeout=0.01)
    assert jobs.get(job.id) == job
