"""Running: one pass of a worker over what is due, and what a handler is given and may answer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from sloppyjobs import errors
from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.enqueue.definitions import Cancel
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.testing.conformance.records import attempts, count, damage, ends, pause_queue, transitions


def test_a_pass_runs_what_is_due_in_claim_order_and_counts_it(jobs: Jobs) -> None:
    seen: list[str] = []
    jobs.define("note", lambda ctx, payload: seen.append(payload))
    jobs.enqueue("note", "plain")
    jobs.enqueue("note", "urgent", priority=5, queue="elsewhere")
    jobs.enqueue("note", "later", delay=1)
    assert jobs.create_worker().run_once() == 2
    assert seen == ["urgent", "plain"]


def test_a_pass_leaves_what_handlers_enqueue_to_the_next(jobs: Jobs) -> None:
    jobs.define("again", lambda ctx, payload: payload and ctx.enqueue("again", payload - 1).id)
    jobs.enqueue("again", 2)
    worker = jobs.create_worker()
    assert [worker.run_once() for _ in range(4)] == [1, 1, 1, 0]


def test_a_pass_promotes_everything_that_is_due(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("note", lambda ctx, payload: None)
    jobs.enqueue_many([("note", number, {"delay": 5}) for number in range(700)])
    clock.advance(5)
    assert jobs.create_worker().run_once() == 700


def test_a_worker_keeps_to_its_queues(jobs: Jobs) -> None:
    jobs.define("note", lambda ctx, payload: None)
    other = jobs.enqueue("note", queue="b")
    jobs.enqueue("note", queue="a")
    assert jobs.create_worker(queues=["a"]).run_once() == 1
    assert jobs.get(other.id) == other


def test_a_job_without_a_handler_here_is_left_alone(jobs: Jobs) -> None:
    jobs.define("known", lambda ctx, payload: None)
    jobs.declare("elsewhere")
    left = jobs.enqueue("elsewhere", priority=9)
    jobs.enqueue("known")
    assert jobs.create_worker().run_once() == 1
    assert (jobs.get(left.id), transitions(jobs, left.id)) == (left, ["created:queued"])


def test_a_paused_queue_rests(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("note", lambda ctx, payload: None)
    jobs.enqueue("note")
    pause_queue(jobs, "default", paused_at=clock.now())
    assert jobs.create_worker().run_once() == 0


def test_a_handler_knows_its_job(jobs: Jobs) -> None:
    seen: dict[str, Any] = {}

    def look(ctx: Any, payload: Any) -> None:
        names = ("job_id", "name", "queue", "attempt", "fence", "correlation_id", "metadata")
        seen.update({name: getattr(ctx, name) for name in names}, aborted=ctx.signal.aborted)

    jobs.define("look", look, metadata={"team": "growth"})
    job = jobs.enqueue("look", queue="q", correlation_id="c-1")
    jobs.create_worker().run_once()
    assert seen == {
        "job_id": job.id,
        "name": "look",
        "queue": "q",
        "attempt": 1,
        "fence": 1,
        "correlation_id": "c-1",
        "metadata": {"team": "growth"},
        "aborted": False,
    }


def test_what_a_handler_enqueues_inherits_the_correlation_id(jobs: Jobs) -> None:
    jobs.define("parent", lambda ctx, payload: ctx.enqueue("child").id)
    jobs.declare("child")
    named, unnamed = jobs.enqueue("parent", correlation_id="c-1"), jobs.enqueue("parent")
    jobs.create_worker().run_once()
    children = [jobs.get(jobs.get(job.id).result).correlation_id for job in (named, unnamed)]
    assert children == ["c-1", unnamed.id]


def test_a_coroutine_is_a_handler(jobs: Jobs) -> None:
    async def double(ctx: Any, payload: int) -> int:
        await asyncio.sleep(0)
        return payload * 2

    jobs.define("double", double)
    job = jobs.enqueue("double", 21)
    assert jobs.create_worker().run_once() == 1
    assert jobs.get(job.id).result == 42


def test_a_handler_may_cancel_its_job(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("check", lambda ctx, payload: Cancel("the order is gone"))
    job = jobs.enqueue("check")
    jobs.create_worker().run_once()
    cancelled = jobs.get(job.id)
    assert (cancelled.status, cancelled.finished_at) == ("cancelled", clock.now())
    assert transitions(jobs, job.id)[2:] == ["cancelled:cancelled"]
    assert ends(jobs, job.id) == [(1, "cancelled")]


def test_progress_may_have_fields_and_each_call_replaces_them(jobs: Jobs) -> None:
    seen = []

    def export(ctx: Any, payload: Any) -> None:
        ctx.progress(25, "first sheet", rows=10, files=["a.csv"], more={"of": None})
        ctx.progress(None, rows=20)
        seen.append(ctx.job_id)

    jobs.define("export", export)
    job = jobs.enqueue("export")
    jobs.create_worker().run_once()
    done = jobs.get(job.id)
    assert (done.progress, done.progress_message, done.progress_fields) == (None, None, {"rows": 20})


@pytest.mark.parametrize(
    ("percent", "fields", "said"),
    [
        (-1, {}, "percent=-1: must be from 0 to 100"),
        (100.5, {}, "percent=100.5: must be from 0 to 100"),
        (float("nan"), {}, "percent=nan: must be from 0 to 100"),
        ("half", {}, "percent='half': must be a number from 0 to 100"),
        (True, {}, "percent=True: must be a number from 0 to 100"),
        (50, {"seen": {1, 2}}, "progress.seen: a value of type set, which is not JSON"),
        (50, {"text": "x" * 9_000}, "progress.text: too large: at least 9002 bytes, the limit is 8192"),
    ],
)
def test_progress_that_cannot_be_kept_is_refused(jobs: Jobs, percent: Any, fields: Any, said: str) -> None:
    jobs.define("export", lambda ctx, payload: ctx.progress(percent, **fields), retry=NO_RETRY)
    job = jobs.enqueue("export")
    jobs.create_worker().run_once()
    assert jobs.get(job.id).error_message == said


def test_progress_and_log_lines_are_kept(jobs: Jobs, clock: FakeClock) -> None:
    def report(ctx: Any, payload: Any) -> None:
        ctx.progress(25)
        ctx.log("info", "began", step=1)
        ctx.progress(75, "nearly")
        ctx.log("warning", "nul \0 gone")

    jobs.define("report", report)
    job = jobs.enqueue("report")
    jobs.create_worker().run_once()
    done = jobs.get(job.id)
    assert (done.status, done.progress, done.progress_message) == ("succeeded", 75, "nearly")
    lines = jobs.storage.inspection.logs()
    assert [(line.job_id, line.attempt_number, line.level) for line in lines] == [
        (job.id, 1, "info"),
        (job.id, 1, "warning"),
    ]
    assert (lines[0].message, msgspec.json.decode(lines[0].fields or "")) == ("began", {"step": 1})
    assert "\0" not in lines[1].message
    assert lines[0].created_at == clock.now()


@pytest.mark.parametrize(
    "result",
    [object(), float("nan"), {1, 2}, "nul \0", "\ud800", "x" * 2_000_000, b"bytes"],
    ids=["an object", "NaN", "a set", "NUL", "a lone surrogate", "megabytes", "bytes"],
)
def test_a_result_that_cannot_be_kept_is_a_success_all_the_same(jobs: Jobs, result: Any) -> None:
    jobs.define("give", lambda ctx, payload: result)
    job = jobs.enqueue("give")
    jobs.create_worker().run_once()
    done = jobs.get(job.id)
    assert (done.status, done.result) == ("succeeded", None)
    [line] = jobs.storage.inspection.logs()
    assert (line.level, line.message[:23]) == ("warning", "the result was not kept")


class _SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        _SilentError(),
        ValueError("a\0b"),
        ValueError("\ud800"),
        ValueError("x" * 5_000_000),
        SystemExit(3),
        ValueError(),
    ],
    ids=["no text", "NUL", "a lone surrogate", "megabytes", "an exit", "an empty text"],
)
def test_a_job_settles_whatever_its_handler_raises(jobs: Jobs, error: BaseException) -> None:
    def fail(ctx: Any, payload: Any) -> None:
        raise error

    jobs.define("fail", fail, retry=NO_RETRY)
    job = jobs.enqueue("fail")
    assert jobs.create_worker().run_once() == 1
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code) == ("dead", errors.HandlerFailed.code)
    assert dead.error_message is not None
    assert dead.error_type is not None
    assert len(dead.error_message) <= 2_000
    assert "\0" not in dead.error_message
    assert str(dead.error_frame).endswith("fail")
    [attempt] = attempts(jobs, job.id)
    assert attempt.traceback is not None
    assert "fail" in attempt.traceback
    assert len(attempt.traceback) <= 16_000


def test_a_handler_that_takes_too_long_is_timed_out_and_its_late_answer_ignored(jobs: Jobs) -> None:
    def dawdle(ctx: Any, payload: Any) -> str:
        ctx.signal.wait(10)
        return "late"

    jobs.define("dawdle", dawdle, timeout=0.05, retry=NO_RETRY)
    job = jobs.enqueue("dawdle")
    began = time.monotonic()
    assert jobs.create_worker().run_once() == 1
    assert time.monotonic() - began < 5
    dead = jobs.get(job.id)
    assert (dead.status, dead.error_code, dead.result) == ("dead", errors.JobTimeout.code, None)
    assert ends(jobs, job.id) == [(1, "timed_out")]


def test_a_job_cancelled_while_it_runs_stays_cancelled(jobs: Jobs) -> None:
    def cancel_myself(ctx: Any, payload: Any) -> str:
        jobs.storage.inspection.cancel(ctx.job_id)
        return "done"

    jobs.define("doomed", cancel_myself)
    job = jobs.enqueue("doomed")
    jobs.create_worker().run_once()
    cancelled = jobs.get(job.id)
    assert (cancelled.status, cancelled.result) == ("cancelled", None)
    assert ends(jobs, job.id) == [(1, "cancelled")]


def test_a_lease_is_extended_by_the_handler(jobs: Jobs, clock: FakeClock) -> None:
    def hold(ctx: Any, payload: Any) -> bool:
        held: bool = ctx.extend_lease(300)
        clock.advance(200)
        assert jobs.storage.sweep().expired == 0
        return held

    jobs.define("hold", hold)
    job = jobs.enqueue("hold")
    jobs.create_worker(lease=30).run_once()
    assert jobs.get(job.id).result is True


def test_a_worker_says_that_it_lives(jobs: Jobs, clock: FakeClock) -> None:
    jobs.define("note", lambda ctx, payload: None)
    worker = jobs.create_worker(queues=["a", "b"], id="w-1")
    jobs.storage.workers.register(worker.info())
    clock.advance(5)
    jobs.storage.workers.heartbeat(worker.info())
    [shown] = jobs.storage.inspection.workers()
    assert (shown.id, shown.status, shown.heartbeat_at) == ("w-1", "running", clock.now())
    assert (msgspec.json.decode(shown.queues), msgspec.json.decode(shown.names)) == (["a", "b"], ["note"])
    clock.advance(5)
    jobs.storage.workers.stop("w-1")
    [shown] = jobs.storage.inspection.workers()
    assert (shown.status, shown.stopped_at) == ("stopped", clock.now())


def test_a_worker_whose_row_was_cleaned_away_writes_it_again(jobs: Jobs) -> None:
    worker = jobs.create_worker(id="w-1")
    jobs.storage.workers.heartbeat(worker.info())
    jobs.storage.workers.register(worker.info())
    assert count(jobs, "workers") == 1


def test_an_operators_wish_reaches_the_worker_by_its_heartbeat(jobs: Jobs) -> None:
    worker, workers = jobs.create_worker(id="w-1"), jobs.storage.workers
    workers.register(worker.info())
    assert workers.heartbeat(worker.info()) is None
    assert workers.want("w-1", "quiet", Command("quiet_worker", "ada"))
    assert not workers.want("w-1", "quiet", Command("quiet_worker", "ada"))
    assert workers.heartbeat(worker.info()) == "quiet"
    assert workers.want("w-1", None, Command("resume_worker", "ada"))
    assert workers.heartbeat(worker.info()) is None
    assert workers.want("w-1", "stop", Command("stop_worker", "ada"))
    assert workers.heartbeat(worker.info()) == "stop"
    workers.register(worker.info())
    assert workers.heartbeat(worker.info()) is None


def test_a_worker_that_stops_cannot_be_wanted_otherwise(jobs: Jobs) -> None:
    worker, workers = jobs.create_worker(id="w-1"), jobs.storage.workers
    with pytest.raises(errors.UnknownWorker):
        workers.want("w-1", "quiet", Command("quiet_worker"))
    workers.register(worker.info())
    workers.want("w-1", "stop", Command("stop_worker"))
    for wanted in ("quiet", None):
        with pytest.raises(errors.InvalidTransition):
            workers.want("w-1", wanted, Command("quiet_worker"))
    workers.stop("w-1")
    with pytest.raises(errors.InvalidTransition):
        workers.want("w-1", "stop", Command("stop_worker"))


def test_a_worker_says_what_it_has_done_and_how_much_memory_it_takes(jobs: Jobs) -> None:
    first = jobs.create_worker(id="w-1").info()
    jobs.storage.workers.register(first)
    jobs.storage.workers.heartbeat(msgspec.structs.replace(first, done=3, failed=2, memory=412_000_000_000))
    [shown] = jobs.storage.inspection.workers()
    assert (shown.done, shown.failed, shown.memory) == (3, 2, 412_000_000_000)


def test_a_quiet_worker_whose_row_was_cleaned_away_stays_quiet(jobs: Jobs) -> None:
    quiet = msgspec.structs.replace(jobs.create_worker(id="w-1").info(), status="quiet")
    assert jobs.storage.workers.heartbeat(quiet) == "quiet"
    assert jobs.storage.workers.heartbeat(quiet) == "quiet"


def test_a_damaged_retry_policy_does_not_stop_the_worker(jobs: Jobs) -> None:
    @jobs.define("fail", retry=Retry(max_attempts=1, initial=7))
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no")

    job = jobs.enqueue("fail")
    damage(jobs, job.id, retry_policy='{"backoff": 7')
    assert jobs.create_worker(recurring=False).run_once() == 1
    assert jobs.get(job.id).status == "dead"


def test_what_a_handler_writes_into_its_metadata_is_seen_by_no_other_job(jobs: Jobs) -> None:
    seen: list[dict[str, Any]] = []

    @jobs.define("scribble")
    def scribble(ctx: Any, payload: Any) -> None:
        seen.append(dict(ctx.metadata))
        ctx.metadata["written by"] = ctx.job_id

    jobs.enqueue_many([("scribble", None)] * 3)
    jobs.enqueue_many([("scribble", None, {"metadata": {"team": "growth"}})] * 3)
    assert jobs.create_worker(recurring=False).run_once() == 6
    assert seen == [{}] * 3 + [{"team": "growth"}] * 3


@pytest.mark.parametrize("metadata", [None, {"team": "growth"}])
def test_jobs_that_are_enqueued_together_have_metadata_of_their_own(jobs: Jobs, metadata: Any) -> None:
    jobs.define("note", lambda ctx, payload: None, metadata=metadata)
    first, second = jobs.enqueue_many([("note", None)] * 2)
    first.metadata["written"] = True  # type: ignore[index]
    assert second.metadata == (metadata or {})
    assert jobs.enqueue("note").metadata == (metadata or {})
