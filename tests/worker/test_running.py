"""What a running worker does with handlers and their outcomes."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import make_dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from sloppyjobs import Cancel, InvalidOption, Jobs, Retry, RetryLater, Snooze, Worker
from sloppyjobs.domain.states import Status

Start = Callable[..., Worker]
Eventually = Callable[..., Any]

NO_WAIT = Retry(max_attempts=3, backoff="none")


def events(jobs: Jobs, job_id: str) -> list[tuple[str | None, str]]:
    table = jobs.storage.tables.events
    query = select(table.c.from_status, table.c.to_status).where(table.c.job_id == job_id).order_by(table.c.id)
    with jobs.storage.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def attempts(jobs: Jobs, job_id: str) -> list[tuple[int, str, str | None]]:
    table = jobs.storage.tables.attempts
    query = select(table.c.attempt_number, table.c.status, table.c.error_code).where(table.c.job_id == job_id)
    with jobs.storage.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(table.c.attempt_number))]


def double(ctx: Any, payload: Any) -> Any:
    return payload["n"] * 2


def spin_for_ever(ctx: Any, payload: Any) -> None:
    while True:
        pass


def report(ctx: Any, payload: Any) -> str:
    ctx.progress(50, "half")
    ctx.log("info", "in a process", n=payload["n"])
    return "reported"


def test_functions_run_in_threads_and_keep_their_results(jobs: Jobs, start: Start) -> None:
    @jobs.define("double")
    def handler(ctx: Any, payload: Any) -> Any:
        return {"doubled": payload["n"] * 2, "thread": threading.current_thread().name}

    job = jobs.enqueue("double", {"n": 21})
    start()
    done = jobs.wait(job.id, 60)
    assert done.status is Status.SUCCEEDED
    assert done.result["doubled"] == 42
    assert done.result["thread"].startswith("sloppyjobs-handler")
    assert events(jobs, job.id) == [(None, "queued"), ("queued", "processing"), ("processing", "succeeded")]
    assert attempts(jobs, job.id) == [(1, "succeeded", None)]


def test_coroutines_run_together_on_one_loop(jobs: Jobs, start: Start) -> None:
    together = asyncio.Barrier(5)

    @jobs.define("meet")
    async def meet(ctx: Any, payload: Any) -> str:
        await together.wait()
        return threading.current_thread().name

    met = [jobs.enqueue("meet") for _ in range(5)]
    start(concurrency=5)
    assert {jobs.wait(job, 60).result for job in met} == {"sloppyjobs-coroutines"}


def test_as_many_functions_as_the_concurrency_run_at_once(jobs: Jobs, start: Start) -> None:
    running, most, lock = 0, 0, threading.Lock()

    @jobs.define("count")
    def count(ctx: Any, payload: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    several = jobs.enqueue_many([("count", None)] * 30)
    start(concurrency=3)
    for job in several:
        jobs.wait(job.id, 60)
    assert most == 3


@pytest.mark.slow
def test_a_handler_in_a_process_returns_its_result_and_reports(jobs: Jobs, start: Start) -> None:
    jobs.define("report", report, isolation="process")
    job = jobs.enqueue("report", {"n": 1})
    start(concurrency=1)
    done = jobs.wait(job.id, timeout=30)
    assert (done.result, done.progress, done.progress_message) == ("reported", 50.0, "half")


@pytest.mark.slow
def test_a_handler_in_a_process_is_killed_when_its_time_is_over(jobs: Jobs, start: Start) -> None:
    jobs.define("spin", spin_for_ever, isolation="process", timeout=1, retry=Retry(max_attempts=1))
    jobs.define("double", double, isolation="process")
    spinning, other = jobs.enqueue("spin"), jobs.enqueue("double", {"n": 4})
    start(concurrency=1)
    assert jobs.wait(spinning.id, timeout=30).error_code == "SLOPPY_E_JOBS_TIMEOUT"
    assert jobs.wait(other.id, timeout=30).result == 8


def test_a_timeout_fails_the_attempt_and_a_late_completion_is_ignored(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    late = threading.Event()

    @jobs.define("slow", timeout=0.2, retry=Retry(max_attempts=1))
    def slow(ctx: Any, payload: Any) -> str:
        ctx.signal.wait(60)
        time.sleep(0.3)
        late.set()
        return "too late"

    job = jobs.enqueue("slow")
    start()
    done = jobs.wait(job.id, 60)
    assert (done.status, done.error_code) == (Status.DEAD, "SLOPPY_E_JOBS_TIMEOUT")
    assert late.wait(60)
    time.sleep(0.1)
    assert jobs.get(job.id).status is Status.DEAD
    assert attempts(jobs, job.id) == [(1, "timed_out", "SLOPPY_E_JOBS_TIMEOUT")]


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_nothing_of_an_attempt_is_left_for_the_garbage_collector(
    jobs: Jobs, start: Start, eventually: Eventually, kind: str
) -> None:
    seen: list[Any] = []

    def function(ctx: Any, payload: Any) -> None:
        seen.append(ctx)
        if payload == "fail":
            raise ValueError(payload)

    async def coroutine(ctx: Any, payload: Any) -> None:
        function(ctx, payload)
        if payload == "sleep":
            await asyncio.sleep(60)

    jobs.define("seen", function if kind == "thread" else coroutine, retry=Retry(max_attempts=1), timeout=0.2)
    gc.disable()
    try:
        start()
        for payload in ("quick", "fail", "sleep"):
            jobs.wait(jobs.enqueue("seen", payload).id, 60)
        # Nobody refers to the contexts any more but the list here.
        eventually(lambda: _references(seen) == _references([object(), object(), object()]))
    finally:
        gc.enable()


def _references(objects: list[Any]) -> list[int]:
    return [sys.getrefcount(one) for one in objects]


def test_news_that_come_while_a_claim_is_under_way_are_not_forgotten(jobs: Jobs) -> None:
    ran: list[Any] = []
    jobs.define("note", lambda ctx, payload: ran.append(payload))
    loop = jobs.create_worker(poll_interval=60, recurring=False, maintenance=False)._loop
    claimed = loop._turns.claimed

    def claimed_too_early() -> Any:
        found = claimed()
        if not found and not ran:
            jobs.enqueue("note", "late")
            loop.wake()
        return found

    loop._turns.claimed = claimed_too_early  # type: ignore[method-assign]
    loop.turn()
    loop.turn()
    assert loop.tasks.unfinished() or ran
    loop.drain(10)
    while not loop.drained:
        loop.turn()
        loop.wait()
    loop.close()


def test_a_timeout_cancels_a_coroutine(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    stopped = threading.Event()

    @jobs.define("slow", timeout=0.2, retry=Retry(max_attempts=1))
    async def slow(ctx: Any, payload: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    @jobs.define("quick")
    async def quick(ctx: Any, payload: Any) -> str:
        await asyncio.sleep(0.01)
        return "unharmed"

    job = jobs.enqueue("slow")
    start(concurrency=1)
    assert jobs.wait(job.id, 60).error_code == "SLOPPY_E_JOBS_TIMEOUT"
    assert stopped.wait(60)
    assert jobs.wait(jobs.enqueue("quick").id, 60).result == "unharmed"


def test_cancelling_a_running_job_reaches_its_signal(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    running, reasons = threading.Event(), []

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> None:
        running.set()
        ctx.signal.wait(60)
        reasons.append(ctx.signal.reason)

    job = jobs.enqueue("long")
    start()
    assert running.wait(60)
    jobs.admin.cancel(job.id, actor="test", reason="not wanted")
    eventually(lambda: reasons == ["cancelled"])
    assert jobs.get(job.id).status is Status.CANCELLED
    assert attempts(jobs, job.id) == [(1, "cancelled", "SLOPPY_E_JOBS_CANCELLED")]


def test_a_failing_job_is_retried_and_dies_after_its_budget(jobs: Jobs, start: Start) -> None:
    @jobs.define("fail", retry=NO_WAIT)
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError(f"attempt {ctx.attempt}")

    job = jobs.enqueue("fail")
    start()
    done = jobs.wait(job.id, 60)
    assert (done.status, done.attempt_count, done.error_message) == (Status.DEAD, 3, "attempt 3")
    assert done.error_type == "ValueError"
    assert done.error_frame is not None and done.error_frame.endswith("fail")
    assert [status for _, status, _ in attempts(jobs, job.id)] == ["failed"] * 3
    once = [("queued", "processing"), ("processing", "failed"), ("failed", "retrying"), ("retrying", "queued")]
    assert events(jobs, job.id) == [(None, "queued"), *once, *once, *once[:2], ("failed", "dead")]


def test_a_job_that_is_due_again_at_once_does_not_wait_for_the_next_poll(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    @jobs.define("fail", retry=NO_WAIT)
    def fail(ctx: Any, payload: Any) -> str:
        if ctx.attempt == 1:
            raise ValueError("no")
        return "done"

    worker = start(poll_interval=300)
    # The first sweep has found nothing, so that the next one is as far away as the next poll.
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    assert jobs.wait(jobs.enqueue("fail").id, 60).result == "done"


def test_a_busy_worker_takes_up_what_is_due_again_without_waiting_for_a_sweep(
    jobs: Jobs, start: Start, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, busy = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(ctx: Any, payload: Any) -> None:
        busy.set()
        finish.wait(60)

    @jobs.define("fail", retry=Retry(max_attempts=2, backoff="fixed", initial=0.01, jitter=False))
    def fail(ctx: Any, payload: Any) -> str:
        if ctx.attempt == 1:
            raise ValueError("no")
        return "done"

    worker = start(poll_interval=300)
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    jobs.enqueue("hold")
    assert busy.wait(60)
    swept: list[float] = []
    sweep = jobs.storage.sweep
    monkeypatch.setattr(jobs.storage, "sweep", lambda *given: swept.append(time.monotonic()) or sweep(*given))
    assert jobs.wait(jobs.enqueue("fail").id, 60).result == "done"
    assert swept == []
    finish.set()


@pytest.mark.parametrize("again", ["fails", "asks to be called later", "snoozes"])
def test_an_idle_worker_takes_up_what_it_has_settled_when_it_is_due(
    jobs: Jobs, start: Start, eventually: Eventually, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """Nobody has to tell it: no sweep says what comes next, and no poll comes meanwhile."""

    @jobs.define("later", retry=Retry(max_attempts=3, backoff="fixed", initial=0.01, jitter=False))
    def later(ctx: Any, payload: Any) -> Any:
        if ctx.attempt == 3:
            return "done"
        if again == "snoozes":
            return Snooze(0.01 * ctx.attempt)
        raise ValueError("no") if again == "fails" else RetryLater(0.01 * ctx.attempt)

    worker = start(poll_interval=300)
    if not worker._loop._turns.promotes:
        pytest.skip("claims do not queue what is due here")
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    # A slow machine may sweep for the news of the new jobs once some of them have failed: that does not count.
    sweep = jobs.storage.sweep
    monkeypatch.setattr(jobs.storage, "sweep", lambda: sweep()._replace(next_in=None))
    sent = jobs.enqueue_many([("later", {}) for _ in range(20)])
    for one in sent:
        assert jobs.wait(one.id, 60).result == "done"


def test_a_worker_hears_of_a_job_that_is_due_before_it_would_poll(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    jobs.define("greet", lambda ctx, payload: "done")
    worker = start(poll_interval=300)
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    assert jobs.wait(jobs.enqueue("greet", delay=0.05).id, 60).result == "done"
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    assert jobs.wait(jobs.enqueue_many([("greet", {}, {"delay": 0.05})])[0].id, 60).result == "done"


def test_a_busy_worker_hears_of_a_job_that_is_due_before_it_would_poll(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    finish, busy = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(ctx: Any, payload: Any) -> None:
        busy.set()
        finish.wait(60)

    jobs.define("greet", lambda ctx, payload: "done")
    worker = start(poll_interval=300)
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    jobs.enqueue("hold")
    assert busy.wait(60)
    assert jobs.wait(jobs.enqueue("greet", delay=0.05).id, 60).result == "done"
    finish.set()


def test_a_busy_worker_wakes_a_job_that_sleeps_in_time(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    """A claim does not: what has to be woken is swept for, also where others are due again meanwhile."""
    finish, busy = threading.Event(), threading.Event()

    @jobs.define("hold")
    def hold(ctx: Any, payload: Any) -> None:
        busy.set()
        finish.wait(120)

    @jobs.define("fail", retry=Retry(max_attempts=100_000, backoff="fixed", initial=0.01, jitter=False))
    def fail(ctx: Any, payload: Any) -> None:
        if not finish.is_set():
            raise ValueError("no")

    @jobs.define("sleep")
    def sleep(ctx: Any, payload: Any) -> str:
        ctx.sleep("nap", 0.2)
        return "awake"

    worker = start(poll_interval=300)
    eventually(lambda: worker._loop._next_look() > time.monotonic() + 200)
    jobs.enqueue_many([("hold", {}), ("fail", {})])
    assert busy.wait(60)
    assert jobs.wait(jobs.enqueue("sleep").id, 60).result == "awake"
    finish.set()


def test_give_up_on_kills_at_once(jobs: Jobs, start: Start) -> None:
    @jobs.define("fail", retry=Retry(max_attempts=5, give_up_on=(LookupError,)))
    def fail(ctx: Any, payload: Any) -> None:
        raise KeyError("no such thing")

    job = jobs.enqueue("fail")
    start()
    assert (jobs.wait(job.id, 60).status, jobs.get(job.id).attempt_count) == (Status.DEAD, 1)


def test_snooze_comes_back_without_using_up_an_attempt(jobs: Jobs, start: Start) -> None:
    @jobs.define("wait", retry=Retry(max_attempts=1))
    def wait(ctx: Any, payload: Any) -> Any:
        return Snooze(0.05) if ctx.attempt < 3 else "done"

    job = jobs.enqueue("wait")
    start()
    done = jobs.wait(job.id, 60)
    assert (done.status, done.attempt_count, done.max_attempts) == (Status.SUCCEEDED, 3, 3)
    assert [status for _, status, _ in attempts(jobs, job.id)] == ["snoozed", "snoozed", "succeeded"]


def test_cancel_and_retry_later_are_outcomes_of_their_own(jobs: Jobs, start: Start) -> None:
    @jobs.define("unwanted")
    def unwanted(ctx: Any, payload: Any) -> Cancel:
        return Cancel("nobody wants it")

    @jobs.define("later", retry=Retry(max_attempts=2, initial=3600))
    def later(ctx: Any, payload: Any) -> str:
        if ctx.attempt == 1:
            raise RetryLater(after=0.05)
        return "now"

    cancelled, retried = jobs.enqueue("unwanted"), jobs.enqueue("later")
    start()
    assert jobs.wait(cancelled.id, 60).status is Status.CANCELLED
    assert jobs.wait(retried.id, 60).result == "now"


def test_jobs_whose_handler_is_unknown_are_left_for_others(jobs: Jobs, start: Start) -> None:
    jobs.declare("elsewhere")
    jobs.define("here", lambda ctx, payload: None)
    foreign, own = jobs.enqueue("elsewhere", priority=100), jobs.enqueue("here")
    start()
    jobs.wait(own.id, 60)
    assert (jobs.get(foreign.id).status, jobs.get(foreign.id).attempt_count) == (Status.QUEUED, 0)


def test_a_worker_takes_only_from_its_queues(jobs: Jobs, start: Start) -> None:
    jobs.define("here", lambda ctx, payload: None)
    other, own = jobs.enqueue("here", queue="other"), jobs.enqueue("here", queue="mine")
    start(queues=("mine",))
    jobs.wait(own.id, 60)
    assert jobs.get(other.id).status is Status.QUEUED


def test_a_delayed_job_starts_when_it_is_due_and_not_before(jobs: Jobs, start: Start) -> None:
    jobs.define("later", lambda ctx, payload: None)
    job = jobs.enqueue("later", delay=0.4)
    start(poll_interval=5)
    done = jobs.wait(job.id, 60)
    table = jobs.storage.tables.attempts
    with jobs.storage.engine.connect() as connection:
        began = connection.execute(select(table.c.started_at).where(table.c.job_id == job.id)).scalar_one()
    assert done.run_at <= began
    assert (began - done.run_at).total_seconds() < 4


def test_leases_of_running_jobs_are_renewed(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    finish = threading.Event()

    @jobs.define("long")
    def long(ctx: Any, payload: Any) -> int:
        finish.wait(20)
        return ctx.attempt

    job = jobs.enqueue("long")
    start(lease=1, heartbeat=0.2)
    start(lease=1, heartbeat=0.2)
    first = eventually(lambda: jobs.get(job.id).locked_until)
    eventually(lambda: (jobs.get(job.id).locked_until - first).total_seconds() > 1.5)
    finish.set()
    assert jobs.wait(job.id, 60).result == 1


def test_renewals_do_not_shorten_a_lease_that_the_handler_has_extended(
    jobs: Jobs, start: Start, eventually: Eventually
) -> None:
    finish = threading.Event()

    @jobs.define("solve")
    def solve(ctx: Any, payload: float | None) -> None:
        assert payload is None or ctx.extend_lease(payload)
        finish.wait(60)

    def left() -> list[float]:
        """How long each of them is ours from now on."""
        ends = [jobs.get(job.id).locked_until for job in solved]
        now = jobs.storage.clock.now()
        return [(end - now).total_seconds() for end in ends]

    solved = [jobs.enqueue("solve", 600), jobs.enqueue("solve", 2), jobs.enqueue("solve")]
    start(lease=30, heartbeat=0.1)
    eventually(lambda: all(jobs.get(job.id).locked_until for job in solved) and left()[0] > 100)
    first = jobs.admin.list_workers().items[0].heartbeat_at
    eventually(lambda: (jobs.admin.list_workers().items[0].heartbeat_at - first).total_seconds() > 0.5)
    # What was extended to less than a lease is renewed as every other.
    extended, *others = left()
    assert extended > 100
    assert all(10 < one < 31 for one in others)
    finish.set()
    assert all(jobs.wait(job.id, 60).status == "succeeded" for job in solved)


def test_correlation_is_inherited_by_what_a_handler_enqueues(jobs: Jobs, start: Start) -> None:
    jobs.define("child", lambda ctx, payload: ctx.correlation_id)

    @jobs.define("parent")
    def parent(ctx: Any, payload: Any) -> str:
        return ctx.enqueue("child").id

    job = jobs.enqueue("parent", correlation_id="order-7")
    start()
    child = jobs.wait(jobs.wait(job.id, 60).result)
    assert (child.result, child.correlation_id) == ("order-7", "order-7")


def test_a_payload_that_breaks_its_schema_is_dead_at_once(jobs: Jobs, start: Start) -> None:
    jobs.define("typed", lambda ctx, payload: None, input=dict[str, int])
    job = jobs.enqueue("typed", {"n": 1})
    table = jobs.storage.tables.jobs
    with jobs.storage.engine.begin() as connection:
        connection.execute(table.update().values(payload='{"n": "one"}'))
    start()
    done = jobs.wait(job.id, 60)
    assert (done.status, done.attempt_count, done.error_code) == (Status.DEAD, 1, "SLOPPY_E_JOBS_INVALID_PAYLOAD")


def test_many_jobs_of_several_names_all_succeed(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    done: list[int] = []
    jobs.define("a", lambda ctx, payload: done.append(payload))

    @jobs.define("b")
    async def b(ctx: Any, payload: Any) -> None:
        done.append(payload)

    jobs.enqueue_many([("a" if n % 2 else "b", n, {"queue": f"q{n % 5}"}) for n in range(2_000)])
    start()
    start()
    eventually(lambda: len(done) >= 2_000, 60)
    assert sorted(done) == list(range(2_000))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("heartbeat", 15), ("heartbeat", 0), ("lease", -1), ("concurrency", 0), ("queues", "mine"), ("queues", ())],
)
def test_settings_that_cannot_work_are_refused(jobs: Jobs, setting: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=setting):
        jobs.create_worker(**{setting: value})


def test_declared_schedules_are_written_and_fired_by_a_worker(jobs: Jobs, start: Start, eventually: Eventually) -> None:
    ran: list[str] = []
    jobs.define("tick", lambda ctx, payload: ran.append(ctx.job_id))
    jobs.declare_recurring("every second", "tick", every=1)
    start(recurring=True)
    eventually(lambda: len(ran) >= 2)
    fired = jobs.fires("every second").items
    assert {job.id for job in fired} >= set(ran)
    assert len({job.occurrence_at for job in fired}) == len(fired)


@pytest.mark.slow
def test_no_more_handlers_begin_than_there_are_processes(jobs: Jobs, start: Start) -> None:
    jobs.define("nap", nap, isolation="process", timeout=3, retry=Retry(max_attempts=1))
    several = [jobs.enqueue("nap") for _ in range(8)]
    start(concurrency=2, prefetch=6)
    for job in several:
        assert jobs.wait(job.id, timeout=60).status is Status.SUCCEEDED, "waiting is not running"


def nap(ctx: Any, payload: Any) -> None:
    time.sleep(1)


class Order:
    """Cannot be sent anywhere."""

    def __reduce__(self) -> Any:
        raise TypeError("orders stay here")

    def backoff(self, attempt: int) -> float:
        return attempt


def test_what_another_process_cannot_have_is_refused_at_definition(jobs: Jobs) -> None:
    inside = make_dataclass("Inside", [("number", int)])
    for settings in ({"input": inside}, {"retry": Retry(backoff=Order().backoff)}):
        with pytest.raises(InvalidOption, match="at the top of a module"):
            jobs.define("double", double, isolation="process", **settings)


@pytest.mark.slow
def test_middleware_that_a_process_cannot_import_fails_the_attempt_instead_of_being_left_out(
    jobs: Jobs, start: Start
) -> None:
    jobs.middleware(lambda ctx, payload, call_next: call_next())
    jobs.define("double", double, isolation="process", retry=Retry(max_attempts=1))
    job = jobs.enqueue("double", {"n": 1})
    start(concurrency=1)
    assert "at the top of a module" in str(jobs.wait(job.id, timeout=30).error_message)


def test_a_handler_knows_for_which_occurrence_its_schedule_fired(jobs: Jobs) -> None:
    seen: list[datetime | None] = []
    jobs.define("report", lambda ctx, payload: seen.append(ctx.occurrence_at))
    meant = datetime(2020, 2, 29, 12, tzinfo=UTC)
    jobs.recurring("yearly", "report", at=meant)
    jobs.create_worker().run_once()
    jobs.enqueue("report")
    jobs.create_worker().run_once()
    assert seen == [meant, None]
