"""The helpers that applications test with: capture, drain, inline, and the pytest fixtures."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.orm import Session

from sloppyjobs import Jobs, JobsError, Retry, Snooze, storage
from sloppyjobs.testing import FakeClock, capture, drain, inline

pytest_plugins = ["pytester"]

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass
class Order:
    number: int
    items: list[str] = field(default_factory=list)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def jobs(ready_sqlite_url: str, clock: FakeClock) -> Iterator[Jobs]:
    made = storage.sqlite(ready_sqlite_url, clock=clock)
    yield Jobs(made)
    made.close()


# Capture


def test_capture_records_what_is_enqueued_inside_the_block(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.declare("leave")
    jobs.enqueue("greet", "before")
    with capture(jobs) as captured:
        first = jobs.enqueue("greet", {"n": 1})
        many = jobs.enqueue_many([("leave", {"n": 2}), ("greet", {"n": 3})])
    jobs.enqueue("greet", "after")
    assert captured.jobs == [first, *many]
    assert captured.payloads("greet") == [{"n": 1}, {"n": 3}]


def test_capture_does_not_record_a_job_whose_key_was_taken(jobs: Jobs) -> None:
    jobs.declare("greet")
    jobs.enqueue("greet", idempotency_key="k")
    with capture(jobs) as captured:
        jobs.enqueue("greet", idempotency_key="k")
    assert captured.jobs == []


def test_capture_records_jobs_of_a_session_before_it_commits(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as captured, Session(jobs.storage.engine) as session:
        jobs.enqueue("greet", session=session)
        captured.assert_enqueued("greet", times=1)


def test_capture_records_what_schedules_enqueue(jobs: Jobs, clock: FakeClock) -> None:
    jobs.declare("greet")
    jobs.recurring("hourly", "greet", {"n": 1}, every=3600)
    clock.advance(3600)
    with capture(jobs) as captured:
        (fired,) = jobs.tick_recurring()
        assert jobs.tick_recurring() == []
        asked = jobs.admin.trigger_recurring("hourly")
    assert [job.id for job in captured.jobs] == [fired.id, asked.id]
    captured.assert_enqueued("greet", payload={"n": 1}, times=2)


def test_captures_may_be_nested(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as outer:
        jobs.enqueue("greet")
        with capture(jobs) as inner:
            jobs.enqueue("greet")
    assert (len(outer.jobs), len(inner.jobs)) == (2, 1)


def test_assert_enqueued_returns_the_jobs_that_match(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as captured:
        one, two = jobs.enqueue("greet", 1), jobs.enqueue("greet", 2, queue="mail")
    assert captured.assert_enqueued("greet") == [one, two]
    assert captured.assert_enqueued("greet", payload=2, queue="mail", times=1) == [two]
    captured.assert_not_enqueued("greet", payload=1, queue="mail")
    captured.assert_not_enqueued("leave")


def test_a_payload_of_none_is_told_from_any_payload(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as captured:
        jobs.enqueue("greet", 1)
    captured.assert_not_enqueued("greet", payload=None)


def test_a_typed_payload_is_compared_as_its_type(jobs: Jobs) -> None:
    jobs.declare("ship", input=Order)
    with capture(jobs) as captured:
        jobs.enqueue("ship", {"number": 7})
        jobs.enqueue("ship", Order(8))
    captured.assert_enqueued("ship", payload=Order(7), times=1)
    captured.assert_enqueued("ship", payload={"number": 8}, times=1)
    captured.assert_not_enqueued("ship", payload={"number": "not a number"})


def test_a_failed_assertion_lists_what_was_enqueued(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as captured:
        jobs.enqueue("greet", {"to": "Ada"}, queue="mail")
        jobs.enqueue("greet", "x" * 1_000)
    with pytest.raises(AssertionError) as failed:
        captured.assert_enqueued("greet", payload={"to": "Bob"}, queue="mail", times=2)
    message = str(failed.value)
    assert "'greet' with payload {'to': 'Bob'} on queue 'mail' to be enqueued 2 times" in message
    assert "'greet' on queue 'mail' with payload {'to': 'Ada'}" in message
    assert "xxx…" in message
    assert len(message) < 800


def test_a_failed_assertion_says_when_nothing_was_enqueued_and_does_not_list_thousands(jobs: Jobs) -> None:
    jobs.declare("greet")
    with capture(jobs) as captured:
        with pytest.raises(AssertionError, match=r"at least once.*0 times.*\n  nothing"):
            captured.assert_enqueued("greet")
        jobs.enqueue_many([("greet",)] * 500)
        with pytest.raises(AssertionError, match=r"never, but it was enqueued 500 times(.|\n)*and 480 more"):
            captured.assert_not_enqueued("greet")


# Drain


def test_drain_runs_what_is_due_and_what_handlers_enqueue(jobs: Jobs) -> None:
    seen: list[int] = []

    def countdown(ctx: Any, number: int) -> None:
        seen.append(number)
        if number:
            ctx.enqueue("countdown", number - 1)

    jobs.define("countdown", countdown)
    jobs.enqueue("countdown", 3)
    assert drain(jobs) == 4
    assert seen == [3, 2, 1, 0]
    assert drain(jobs) == 0


def test_drain_runs_retries_without_a_delay_and_leaves_the_others(jobs: Jobs, clock: FakeClock) -> None:
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError

    jobs.define("at once", fail, retry=Retry(max_attempts=3, backoff="none"))
    jobs.define("later", fail, retry=Retry(max_attempts=3, backoff="fixed", initial=60, jitter=False))
    first, second = jobs.enqueue("at once"), jobs.enqueue("later")
    assert drain(jobs) == 4
    assert (jobs.get(first.id).status, jobs.get(second.id).status) == ("dead", "retrying")
    clock.advance(60)
    assert drain(jobs) == 1


def test_drain_fires_schedules_that_are_due(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("report", lambda ctx, payload: None)
    jobs.recurring("hourly", "report", cron="0 * * * *")
    clock.advance(3_600)
    assert drain(jobs) == 1


def test_drain_ends_when_a_handler_is_interrupted_from_the_keyboard(jobs: Jobs) -> None:
    @jobs.define("slow", retry=Retry(max_attempts=1))
    def slow(ctx: Any, payload: None) -> None:
        signal.raise_signal(signal.SIGINT)

    first, second = jobs.enqueue("slow"), jobs.enqueue("slow")
    with pytest.raises(KeyboardInterrupt):
        drain(jobs)
    assert jobs.get(first.id).status == "dead"
    assert jobs.admin.attempts(second.id)[0].finished_at is None


def test_drain_in_another_thread_takes_an_interrupt_for_a_failure(jobs: Jobs) -> None:
    @jobs.define("slow", retry=Retry(max_attempts=1))
    def slow(ctx: Any, payload: None) -> None:
        raise KeyboardInterrupt

    job, ran = jobs.enqueue("slow"), []
    thread = threading.Thread(target=lambda: ran.append(drain(jobs)))
    thread.start()
    thread.join()
    assert ran == [1]
    assert jobs.get(job.id).status == "dead"


def test_drain_leaves_jobs_without_a_handler_alone(jobs: Jobs) -> None:
    jobs.declare("elsewhere")
    job = jobs.enqueue("elsewhere")
    assert drain(jobs) == 0
    assert jobs.get(job.id) == job


@pytest.mark.parametrize("endless", ["enqueues itself", "snoozes"])
def test_drain_gives_up_on_jobs_that_never_end_and_names_them(jobs: Jobs, endless: str) -> None:
    handlers = {
        "enqueues itself": lambda ctx, payload: ctx.enqueue("again").id,
        "snoozes": lambda ctx, payload: Snooze(0),
    }
    jobs.define("again", handlers[endless])
    jobs.enqueue("again")
    with pytest.raises(JobsError, match=r"20 attempts .* still something due: again \(job_.*limit above 20"):
        drain(jobs, limit=20)


def test_as_many_as_the_limit_are_not_too_many(jobs: Jobs) -> None:
    jobs.define("note", lambda ctx, payload: None)
    jobs.enqueue_many([("note",)] * 20)
    assert drain(jobs, limit=20) == 20


# Inline


def test_inline_runs_a_job_before_enqueue_returns(jobs: Jobs) -> None:
    threads: list[threading.Thread] = []
    jobs.define("note", lambda ctx, payload: threads.append(threading.current_thread()))
    with inline(jobs):
        job = jobs.enqueue("note")
        assert threads == [threading.current_thread()]
        assert jobs.get(job.id).status == "succeeded"
    jobs.enqueue("note")
    assert len(threads) == 1


def test_inline_runs_many(jobs: Jobs) -> None:
    seen: list[int] = []
    jobs.define("note", lambda ctx, payload: seen.append(payload))
    with inline(jobs):
        jobs.enqueue_many(("note", number) for number in range(5))
    assert seen == [0, 1, 2, 3, 4]


def test_inline_runs_what_a_handler_enqueues_after_the_handler(jobs: Jobs) -> None:
    seen: list[str] = []

    def outer(ctx: Any, payload: Any) -> None:
        jobs.enqueue("inner")
        seen.append("outer")

    jobs.define("outer", outer)
    jobs.define("inner", lambda ctx, payload: seen.append("inner"))
    with inline(jobs):
        jobs.enqueue("outer")
    assert seen == ["outer", "inner"]


def test_a_handler_sees_nothing_of_the_context_in_which_it_was_enqueued(jobs: Jobs) -> None:
    variable, seen = ContextVar("variable", default="as in a worker"), []

    @jobs.define("look")
    def look(ctx: Any, payload: None) -> None:
        seen.append(variable.get())
        variable.set("the handler's")

    variable.set("the caller's")
    with inline(jobs):
        jobs.enqueue("look")
    assert seen == ["as in a worker"]
    assert variable.get() == "the caller's"


def test_inline_settles_a_handler_that_raises_as_usual(jobs: Jobs) -> None:
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no")

    jobs.define("fail", fail, retry=Retry(max_attempts=2))
    with inline(jobs):
        job = jobs.enqueue("fail")
    failed = jobs.get(job.id)
    assert (failed.status, failed.error_message, failed.attempt_count) == ("retrying", "no", 1)


def test_inline_leaves_later_jobs_and_those_of_a_transaction_alone(jobs: Jobs) -> None:
    seen: list[str] = []
    jobs.define("note", lambda ctx, payload: seen.append(payload))
    with inline(jobs):
        jobs.enqueue("note", "later", delay=60)
        with Session(jobs.storage.engine) as session:
            jobs.enqueue("note", "in a session", session=session)
            session.commit()
        with jobs.storage.engine.begin() as connection:
            jobs.enqueue("note", "on a connection", connection=connection)
        assert seen == []
        jobs.enqueue("note", "outside", priority=-1)
    assert seen == ["in a session", "on a connection", "outside"]


def test_inline_works_in_memory() -> None:
    jobs = Jobs("sqlite://")
    jobs.storage.init()
    jobs.define("note", lambda ctx, payload: "noted")
    with inline(jobs), jobs.storage.engine.begin() as connection:
        jobs.enqueue("note", connection=connection)
    with inline(jobs):
        assert jobs.get(jobs.enqueue("note").id).result == "noted"
    jobs.storage.close()


def test_inline_stops_jobs_that_never_end(jobs: Jobs) -> None:
    jobs.define("again", lambda ctx, payload: ctx.enqueue("again").id)
    with inline(jobs, limit=10), pytest.raises(JobsError, match="again"):
        jobs.enqueue("again")


# Fixtures

APPLICATION = """
    import pytest
    from sloppyjobs import Jobs

    @pytest.fixture
    def jobs(jobs_storage):
        jobs = Jobs(jobs_storage)
        jobs.define("note", lambda ctx, payload: "noted")
        return jobs
"""
TESTS = """
    def test_capture(jobs, jobs_capture):
        jobs.enqueue("note", 1)
        jobs_capture.assert_enqueued("note", payload=1)

    def test_inline(jobs, jobs_inline):
        assert jobs.get(jobs.enqueue("note").id).result == "noted"

    def test_clock(jobs, jobs_clock):
        job = jobs.enqueue("note", delay=60)
        jobs_clock.advance(60)
        assert jobs.create_worker().run_once() == 1
        assert job.created_at.isoformat() == "2030-01-01T12:00:00+00:00"
"""


def test_the_fixtures_work_in_an_application(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(APPLICATION)
    pytester.makepyfile(TESTS)
    ran = pytester.runpytest_subprocess("-p", "sloppyjobs.testing.pytest_plugin", "-p", "no:cacheprovider")
    ran.assert_outcomes(passed=3)


def test_the_fixtures_ask_for_the_applications_jobs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_capture(jobs_capture): pass")
    ran = pytester.runpytest_subprocess("-p", "sloppyjobs.testing.pytest_plugin", "-p", "no:cacheprovider")
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["*jobs_capture needs a fixture named jobs*"])


def test_the_plugin_costs_a_test_run_nothing() -> None:
    check = (
        "import sys, sloppyjobs.testing.pytest_plugin; print({'sqlalchemy', 'msgspec', 'alembic'} & sys.modules.keys())"
    )
    printed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"
