"""Coroutine handlers, on one event loop in a thread of its own.

A handler must not be able to end the loop for the others. What it raises itself never reaches the loop. What a task
that it has left behind raises, ``SystemExit`` or ``KeyboardInterrupt``, or a call of ``loop.stop()``, does: the loop
is run again then, and the other coroutines go on where they were. A loop that cannot be run again is replaced.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sloppyjobs import errors
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.payload import class_name, clean_text
from sloppyjobs.domain.states import Failure, Lost
from sloppyjobs.worker import executor
from sloppyjobs.worker.runners.threads import Finish
from sloppyjobs.worker.task import Task

log = get_logger("sloppyjobs.worker")

BLOCKED_SECONDS = 1.0
"""A loop that has not run a callback for so long is blocked by one of its coroutines."""


class AsyncRunner:
    """Coroutines, up to ``size`` at once. Handlers share a few asyncio tasks ("pullers") that run one after the other.

    To make a task for each handler would take longer than many handlers run.
    """

    YIELD_EVERY = 16
    """After so many handlers that never awaited, the other tasks of the loop run."""

    def __init__(self, size: int, finish: Finish) -> None:
        self._size = size
        self._finish = finish
        self._tasks: deque[Task] = deque()
        self._pulling: set[asyncio.Task[None]] = set()
        self._running: dict[Task, asyncio.Task[Any]] = {}
        self._cancelling: dict[Task, float] = {}
        self._closing = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._start_thread()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Hand tasks to the loop, waking it once."""
        self._tasks.extend(tasks)
        if not self._thread.is_alive() and not self._closing.is_set():
            log.error("the thread of the coroutine handlers has ended; another takes its place")
            self._start_thread()
        self._wake()

    @property
    def blocked(self) -> bool:
        """Whether a handler that does not await blocks the loop, so that cancellations are not processed."""
        oldest = min(list(self._cancelling.values()), default=None)
        return oldest is not None and time.monotonic() - oldest > BLOCKED_SECONDS

    def close(self) -> None:
        """Stop the loop."""
        self._closing.set()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="sloppyjobs-coroutines", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        # A loop that has been closed is about to be replaced, and the new one looks for tasks by itself.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._pull_more)

    # On the loop's thread

    def _serve(self) -> None:
        while not self._closing.is_set():
            loop = self._loop
            asyncio.set_event_loop(loop)
            ended_by = self._run_loop(loop)
            if self._closing.is_set():
                break
            if loop.is_closed() or not _can_run_again(ended_by):
                self._replace(loop, ended_by)
            else:
                _log_end("the event loop of the coroutine handlers was ended by %s and runs again", ended_by)
        self._end(self._loop)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> BaseException | None:
        """Run until the loop ends; returns what ended it, None for ``loop.stop()``."""
        try:
            # Also for what was submitted while no loop was running.
            loop.call_soon(self._pull_more)
            loop.run_forever()
        except BaseException as error:
            return error
        return None

    def _replace(self, broken: asyncio.AbstractEventLoop, ended_by: BaseException | None) -> None:
        """Go on with a new loop. Nothing can run on the old one any more, so its attempts are lost."""
        _log_end("the event loop of the coroutine handlers was ended by %s; a new one takes its place", ended_by)
        lost = list(self._running)
        self._running, self._pulling, self._cancelling = {}, set(), {}
        self._loop = asyncio.new_event_loop()
        for task in lost:
            task.signal.forget()
            self._finish(task, Lost(_LOOP_LOST))
        with suppress(BaseException):
            broken.close()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        pulling = list(self._pulling)
        for puller in pulling:
            puller.cancel()
        with suppress(BaseException):
            loop.run_until_complete(asyncio.gather(*pulling, return_exceptions=True))
        with suppress(BaseException):
            loop.close()

    def _pull_more(self) -> None:
        for _ in range(min(self._size - len(self._pulling), len(self._tasks))):
            puller = self._loop.create_task(self._pull(self._loop))
            self._pulling.add(puller)
            puller.add_done_callback(self._puller_ended)

    def _puller_ended(self, puller: asyncio.Task[None]) -> None:
        self._pulling.discard(puller)
        if self._tasks and not self._closing.is_set():
            self._pull_more()

    async def _pull(self, loop: asyncio.AbstractEventLoop) -> None:
        puller = asyncio.current_task()
        assert puller is not None
        ran = 0
        while self._tasks:
            task = self._tasks.popleft()
            if task.begin():
                await self._run(task, puller)
                # A cancellation that the handler has left behind must not hit the next one.
                if self._closing.is_set() or self._loop is not loop or puller.cancelling():
                    return
            ran += 1
            if ran % self.YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _run(self, task: Task, puller: asyncio.Task[Any]) -> None:
        self._running[task] = puller
        task.signal.on_abort(partial(self._cancel_from_elsewhere, task))
        try:
            self._finish(task, await executor.run_async(task))
        finally:
            self._running.pop(task, None)
            task.signal.forget()

    def _cancel(self, task: Task) -> None:
        self._cancelling.pop(task, None)
        # On the loop's thread, while the handler is suspended: the cancellation cannot hit its successor.
        puller = self._running.get(task)
        if puller is not None:
            puller.cancel()

    def _cancel_from_elsewhere(self, task: Task) -> None:
        self._cancelling[task] = time.monotonic()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel, task)


_LOOP_LOST = Failure(
    errors.LOOP_ENDED,
    "the event loop on which the coroutine ran was ended by another handler or by this one",
)


def _can_run_again(ended_by: BaseException | None) -> bool:
    """Whether a loop that ended like this still works; any other exception is an error of the loop itself."""
    return (
        ended_by is None
        or issubclass(type(ended_by), SystemExit | KeyboardInterrupt)
        or not issubclass(type(ended_by), Exception)
    )


def _log_end(message: str, ended_by: BaseException | None) -> None:
    shown = "loop.stop()" if ended_by is None else f"{class_name(type(ended_by))}: {clean_text(ended_by, 500)}"
    with suppress(BaseException):
        log.error(message, shown)
