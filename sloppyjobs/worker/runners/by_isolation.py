"""The runners of one worker, by the isolation of the handlers that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sloppyjobs.observe.hooks import Hooks
from sloppyjobs.worker.runners.coroutines import AsyncRunner
from sloppyjobs.worker.runners.find_jobs import Find
from sloppyjobs.worker.runners.processes import ProcessRunner
from sloppyjobs.worker.runners.threads import Finish, Runner, ThreadRunner
from sloppyjobs.worker.task import Task


class Runners:
    """Makes a runner when the first task for it comes."""

    def __init__(self, size: int, finish: Finish, hooks: Hooks, find: Callable[[], Find | None]) -> None:
        self._size = size
        self._finish = finish
        self._hooks = hooks
        self._find = find
        self._runners: dict[str, Runner] = {}

    def new(self, isolation: str, size: int, finish: Finish) -> Runner:
        """A runner for handlers of that isolation, which the caller closes."""
        match isolation:
            case "async":
                return AsyncRunner(size, finish)
            case "process":
                return ProcessRunner(size, finish, self._hooks, self._find)
            case _:
                return ThreadRunner(size, finish)

    def submit(self, isolation: str, tasks: Sequence[Task]) -> None:
        """Run tasks of one isolation."""
        runner = self._runners.get(isolation)
        if runner is None:
            runner = self._runners[isolation] = self.new(isolation, self._size, self._finish)
        runner.submit(tasks)

    def blocked(self) -> set[str]:
        """The isolations in which one handler keeps all others from going on."""
        return {isolation for isolation, runner in list(self._runners.items()) if runner.blocked}

    def close(self) -> None:
        """End the runners."""
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()
