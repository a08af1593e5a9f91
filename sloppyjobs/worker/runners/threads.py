"""Where handlers run: threads for functions here, one event loop for coroutines in ``coroutines``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.payload import class_name
from sloppyjobs.domain.states import Outcome
from sloppyjobs.worker import executor
from sloppyjobs.worker.task import Task

log = get_logger("sloppyjobs.worker")

Finish = Callable[[Task, Outcome], None]


class Runner(Protocol):
    """Runs tasks in the order in which they come, so many at once."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks; each is finished later, or found withdrawn."""
        ...

    @property
    def blocked(self) -> bool:
        """Whether one handler keeps all others of this runner from going on."""
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
            # Where no thread can be had now, the next tasks ask again.
            thread.start()
            self._threads.append(thread)

    @property
    def blocked(self) -> bool:
        """Never: threads do not wait for each other."""
        return False

    def close(self) -> None:
        """End the threads that wait for work."""
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        """Run tasks until told to end. Other exceptions, such as one that somebody raised into the thread from outside,
        end neither the thread nor leave an attempt without an outcome.
        """
        held: list[Task] = []
        while True:
            try:
                self._run_tasks(held)
                return
            except BaseException as error:
                with suppress(BaseException):
                    log.error("a handler thread was ended by %s; another takes its place", class_name(type(error)))
                    for task in held:
                        self._finish(task, executor.interpret_exception(task, error))
                held.clear()

    def _run_tasks(self, held: list[Task]) -> None:
        while True:
            self._idle += 1
            try:
                task = self._tasks.get()
            finally:
                self._idle -= 1
            if task is None:
                return
            if task.begin():
                held.append(task)
                self._finish(task, executor.run(task))
                held.clear()
            # A thread may wait long for the next one.
            del task
