"""Where handlers run: threads for functions, one event loop for coroutines."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from sloppyjobs.states import Outcome
from sloppyjobs.worker import executor
from sloppyjobs.worker.task import Task

Finish = Callable[[Task, Outcome], None]


class Runner(Protocol):
    """Runs tasks in the order in which they come, so many at once."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks; each is finished later, or found withdrawn."""
        ...

    def close(self) -> None:
        """Take no more. Handlers that ignore their signal are left behind, not waited for."""
        ...


class ThreadRunner:
    """Plain functions, each in one of up to ``size`` threads. Threads are made when there is work for them."""

    def __init__(self, size: int, finish: Finish) -> None:
        self._size = size
        self._finish = finish
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def submit(self, tasks: Sequence[Task]) -> None:
        """Hand tasks to the threads."""
        for task in tasks:
            self._tasks.put(task)
        wanted = min(self._size, len(self._threads) + max(0, self._tasks.qsize() - self._idle))
        while len(self._threads) < wanted:
            thread = threading.Thread(
                target=self._work, name=f"sloppyjobs-handler-{len(self._threads) + 1}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """End the threads that wait for work."""
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        while True:
            self._idle += 1
            task = self._tasks.get()
            self._idle -= 1
            if task is None:
                return
            if task.begin():
                self._finish(task, executor.run(task))
            # A thread may wait long for the next one.
            del task


class AsyncRunner:
    """Coroutines, up to ``size`` at once, on one event loop in a thread of its own."""

    BREATH = 16
    """After so many handlers that never paused, the others on the loop get a turn."""

    def __init__(self, size: int, finish: Finish) -> None:
        self._size = size
        self._finish = finish
        self._tasks: deque[Task] = deque()
        self._active = 0
        self._pulling: set[asyncio.Task[None]] = set()
        self._running: dict[Task, asyncio.Task[Any]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sloppyjobs-coroutines", daemon=True)
        self._thread.start()

    def submit(self, tasks: Sequence[Task]) -> None:
        """Hand tasks to the loop, waking it once."""
        self._tasks.extend(tasks)
        self._loop.call_soon_threadsafe(self._pull_more)

    def close(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=1)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for pulling in self._pulling:
            pulling.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._pulling, return_exceptions=True))
        self._loop.close()

    def _pull_more(self) -> None:
        for _ in range(min(self._size - self._active, len(self._tasks))):
            self._active += 1
            pulling = self._loop.create_task(self._pull())
            self._pulling.add(pulling)
            pulling.add_done_callback(self._pulling.discard)

    async def _pull(self) -> None:
        puller = asyncio.current_task()
        assert puller is not None
        try:
            ran = 0
            while self._tasks:
                task = self._tasks.popleft()
                if task.begin():
                    await self._run(task, puller)
                ran += 1
                if ran % self.BREATH == 0:
                    await asyncio.sleep(0)
        finally:
            self._active -= 1

    def _cancel(self, task: Task) -> None:
        # On the loop's thread, while the handler is suspended: the cancellation cannot hit its successor.
        puller = self._running.get(task)
        if puller is not None:
            puller.cancel()

    def _cancel_from_elsewhere(self, task: Task) -> None:
        self._loop.call_soon_threadsafe(self._cancel, task)

    async def _run(self, task: Task, puller: asyncio.Task[Any]) -> None:
        self._running[task] = puller
        task.signal.on_abort(partial(self._cancel_from_elsewhere, task))
        try:
            self._finish(task, await executor.run_async(task))
        except asyncio.CancelledError as error:
            if not task.signal.aborted:
                if puller.cancelling():
                    raise
                self._finish(task, executor.raised(task, error))
                return
            puller.uncancel()
            self._finish(task, executor.raised(task, error))
        finally:
            del self._running[task]
            task.signal.forget()
