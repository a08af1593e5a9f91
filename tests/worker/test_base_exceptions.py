"""Every attempt settles, whatever a handler raises or returns; a loop or thread that ended goes on or is replaced."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sloppyjobs import Jobs, Retry, RetryLater, Snooze, Worker
from sloppyjobs.domain.states import Status

Start = Callable[..., Worker]

ONCE = Retry(max_attempts=1)


class Odd(BaseException):
    """No ``Exception``."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")

    __repr__ = __str__


class Unclassifiable(Exception):
    @property
    def __class__(self) -> Any:
        raise KeyboardInterrupt


class Meta(type):
    @property
    def __module__(cls) -> Any:
        raise SystemExit("no module")


class Nameless(Exception, metaclass=Meta):
    """Its class does not even tell its name."""


# Made inside of the handlers: pytest would ask some of these for their text, and end.
RAISED: dict[str, Callable[[], BaseException]] = {
    "an exit": lambda: SystemExit(3),
    "an interrupt": KeyboardInterrupt,
    "a generator's exit": GeneratorExit,
    "one of its own": lambda: Odd("odd"),
    "a group": lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("no")]),
    "a cancellation": lambda: asyncio.CancelledError("by itself"),
    "a text that exits": Speechless,
    "a class that interrupts": Unclassifiable,
    "a name that exits": Nameless,
}


def settled(jobs: Jobs, job_id: str) -> Any:
    return jobs.wait(job_id, timeout=60)


@pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "function"])
def test_an_attempt_settles_whatever_its_handler_raises_and_the_next_one_runs(
    jobs: Jobs, start: Start, coroutine: bool
) -> None:
    async def bad_coroutine(ctx: Any, payload: Any) -> None:
        await asyncio.sleep(0)
        raise RAISED[payload]()

    def bad_function(ctx: Any, payload: Any) -> None:
        raise RAISED[payload]()

    async def good_coroutine(ctx: Any, payload: Any) -> str:
        return "ran"

    jobs.define("bad", bad_coroutine if coroutine else bad_function, retry=ONCE)
    jobs.define("good", good_coroutine if coroutine else lambda ctx, payload: "ran")
    start(concurrency=2)
    for what in RAISED:
        dead = settled(jobs, jobs.enqueue("bad", what).id)
        assert (what, dead.status, dead.error_code) == (what, Status.DEAD, "SLOPPY_E_JOBS_HANDLER_FAILED")
        assert settled(jobs, jobs.enqueue("good").id).result == "ran"


class ExitingModel:
    def model_dump(self, mode: str) -> Any:
        sys.exit("no dump")


class ExitingDict(dict[str, Any]):
    def items(self) -> Any:
        raise KeyboardInterrupt

    __len__ = items


class FailingModel:
    def model_dump(self, mode: str) -> Any:
        raise RuntimeError("no dump")


@pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "function"])
def test_a_result_that_cannot_be_kept_is_left_out_of_a_success(jobs: Jobs, start: Start, coroutine: bool) -> None:
    kinds: dict[str, Callable[[], Any]] = {
        "exits": ExitingModel,
        "interrupts": lambda: ExitingDict(a=1),
        "fails": FailingModel,
        "has no class": Unclassifiable,
    }

    async def later(ctx: Any, payload: Any) -> Any:
        return kinds[payload]()

    jobs.define("odd", later if coroutine else lambda ctx, payload: kinds[payload](), retry=ONCE)
    start(concurrency=1)
    for what in kinds:
        done = settled(jobs, jobs.enqueue("odd", what).id)
        assert (what, done.status, done.result) == (what, Status.SUCCEEDED, None)


def stray_task(error: BaseException) -> Callable[[Any, Any], Any]:
    async def stray() -> None:
        raise error

    async def handler(ctx: Any, payload: Any) -> str:
        left_behind = asyncio.create_task(stray())
        while not left_behind.done():
            await asyncio.sleep(0)
        left_behind.exception()
        return "survived"

    return handler


async def grouped(ctx: Any, payload: Any) -> None:
    async def leave() -> None:
        sys.exit(4)

    async with asyncio.TaskGroup() as group:
        group.create_task(leave())


async def stopping(ctx: Any, payload: Any) -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return "survived"


@pytest.mark.parametrize(
    ("handler", "ends"),
    [
        (stray_task(SystemExit(1)), "succeeded"),
        (stray_task(KeyboardInterrupt()), "succeeded"),
        (grouped, "dead"),
        (stopping, "succeeded"),
    ],
    ids=["a stray exit", "a stray interrupt", "a task group", "loop.stop"],
)
def test_a_loop_that_is_ended_goes_on_for_all_of_its_coroutines(
    jobs: Jobs, start: Start, caplog: pytest.LogCaptureFixture, handler: Any, ends: str
) -> None:
    began, released = threading.Event(), threading.Event()

    @jobs.define("neighbour", retry=ONCE)
    async def neighbour(ctx: Any, payload: Any) -> str:
        began.set()
        while not released.is_set():
            await asyncio.sleep(0.01)
        return "unharmed"

    jobs.define("ending", handler, retry=ONCE)
    start(concurrency=3)
    beside = jobs.enqueue("neighbour")
    assert began.wait(60)
    with caplog.at_level(logging.ERROR, logger="sloppyjobs.worker"):
        ended = settled(jobs, jobs.enqueue("ending").id)
    assert ended.status == ends
    released.set()
    assert settled(jobs, beside.id).result == "unharmed"
    assert any("event loop of the coroutine handlers was ended by" in message for message in caplog.messages)


def test_a_loop_that_is_broken_is_replaced_and_what_ran_on_it_is_run_again(
    jobs: Jobs, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    began = threading.Event()

    @jobs.define("neighbour", retry=Retry(max_attempts=2, backoff="none"))
    async def neighbour(ctx: Any, payload: Any) -> int:
        began.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return int(ctx.attempt)

    @jobs.define("breaking", retry=ONCE)
    async def breaking(ctx: Any, payload: Any) -> None:
        asyncio.get_running_loop()._run_once = lambda: 1 / 0  # type: ignore[attr-defined]
        await asyncio.sleep(10)

    start(concurrency=3)
    beside = jobs.enqueue("neighbour")
    assert began.wait(60)
    broken = settled(jobs, jobs.enqueue("breaking").id)
    assert (broken.status, broken.error_code) == (Status.DEAD, "SLOPPY_E_JOBS_LOOP_ENDED")
    assert settled(jobs, beside.id).result == 2
    assert any("a new one takes its place" in message for message in caplog.messages)


def test_a_coroutine_that_cancels_its_own_task_settles_and_harms_no_successor(jobs: Jobs, start: Start) -> None:
    @jobs.define("suicidal", retry=ONCE)
    async def suicidal(ctx: Any, payload: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if payload:
            await asyncio.sleep(0)
        return "returned first"

    @jobs.define("good", retry=ONCE)
    async def good(ctx: Any, payload: Any) -> str:
        await asyncio.sleep(0)
        return "ran"

    given = [("suicidal", True), ("good", None), ("suicidal", False), ("good", None)]
    enqueued = jobs.enqueue_many(given)
    start(concurrency=1)
    ended = [settled(jobs, job.id) for job in enqueued]
    assert [job.status for job in ended] == ["dead", "succeeded", "succeeded", "succeeded"]


def test_a_thread_that_is_ended_from_outside_settles_its_attempt_and_goes_on(jobs: Jobs, start: Start) -> None:
    """As libraries do that raise an exception into a thread; this one comes when the handler has just ended."""
    threads: list[int] = []

    class Late:
        def model_dump(self, mode: str) -> Any:
            raise_in(threads[-1], SystemExit)
            return {"kept": True}

    @jobs.define("hit", retry=ONCE)
    def hit(ctx: Any, payload: Any) -> Any:
        threads.append(threading.get_ident())
        return Late()

    start(concurrency=1)
    for _ in range(3):
        assert settled(jobs, jobs.enqueue("hit").id).status in ("succeeded", "dead")


def raise_in(thread: int, error: type[BaseException]) -> None:
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error)) == 1


def test_an_idle_thread_that_is_ended_from_outside_is_replaced(
    jobs: Jobs, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.define("who")
    def who(ctx: Any, payload: Any) -> int:
        return threading.get_ident()

    start(concurrency=1)
    first = settled(jobs, jobs.enqueue("who").id).result
    raise_in(first, SystemExit)
    for _ in range(3):
        assert settled(jobs, jobs.enqueue("who").id).status in ("succeeded", "dead")
    assert any("a handler thread was ended by SystemExit" in message for message in caplog.messages)


class Endless(Snooze):
    def __init__(self) -> None:
        self.seconds = 1e300


class Never(RetryLater):
    def __init__(self) -> None:
        self.after = float("nan")


def test_a_delay_beyond_the_calendar_does_not_keep_neighbours_from_being_settled(jobs: Jobs, start: Start) -> None:
    far = Retry(max_attempts=5, backoff=lambda attempt: 1e200, maximum=1e300, jitter=False)

    @jobs.define("far", retry=far)
    def fail(ctx: Any, payload: Any) -> None:
        raise ValueError("no")

    @jobs.define("snooze", retry=ONCE)
    def snooze(ctx: Any, payload: Any) -> Snooze:
        return Endless()

    @jobs.define("later", retry=ONCE)
    def later(ctx: Any, payload: Any) -> None:
        raise Never

    jobs.define("good", lambda ctx, payload: "ran")
    enqueued = jobs.enqueue_many([("far", None), ("snooze", None), ("later", None), ("good", None)])
    start(concurrency=1)
    assert settled(jobs, enqueued[3].id).result == "ran"
    assert settled(jobs, enqueued[1].id).status == "dead"
    assert settled(jobs, enqueued[2].id).status == "dead"
    assert jobs.get(enqueued[0].id).status == "retrying"


def test_a_policy_that_raises_does_not_keep_a_timeout_from_being_settled(jobs: Jobs, start: Start) -> None:
    def leave(attempt: int) -> float:
        sys.exit("no backoff")

    @jobs.define("slow", timeout=0.05, retry=Retry(max_attempts=2, backoff=leave, maximum=0.01))
    def slow(ctx: Any, payload: Any) -> None:
        ctx.signal.wait(60)

    start(concurrency=1)
    job = jobs.enqueue("slow")
    assert settled(jobs, job.id).error_code == "SLOPPY_E_JOBS_TIMEOUT"


def leave(ctx: Any, payload: Any) -> Any:
    if payload == "result":
        return ExitingModel()
    raise RAISED[payload]()


@pytest.mark.slow
def test_a_handler_in_a_process_settles_whatever_it_raises_or_returns(jobs: Jobs, start: Start) -> None:
    jobs.define("leave", leave, isolation="process", retry=ONCE)
    several = jobs.enqueue_many([("leave", what) for what in ("an exit", "a text that exits", "a group", "result")])
    start(concurrency=1)
    ended = [jobs.wait(job.id, timeout=60) for job in several]
    assert [job.status for job in ended] == ["dead", "dead", "dead", "succeeded"]
    assert {job.error_code for job in ended[:3]} == {"SLOPPY_E_JOBS_HANDLER_FAILED"}
