"""What workers write into the store in memory besides jobs, and how they wait for news."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from memory_state import State

from sloppyjobs import errors
from sloppyjobs.domain.model import WorkerInfo
from sloppyjobs.storage.ports.claims import Fence
from sloppyjobs.storage.ports.operators import Command
from sloppyjobs.storage.ports.records import LogRecord, WorkerRecord
from sloppyjobs.storage.workers import check_wish


class MemoryWorkers:
    """``WorkerPort``."""

    def __init__(self, state: State) -> None:
        self._state = state

    def register(self, worker: WorkerInfo) -> None:
        """A worker begins."""
        with self._state as state:
            now = state.clock.now()
            queues, names = (msgspec.json.encode(words).decode() for words in (worker.queues, worker.names))
            told = {name: getattr(worker, name) for name in ("memory", "done", "failed", "app_version")}
            record = WorkerRecord(worker.id, queues, names, worker.status, worker.running, now, now)
            state.workers[worker.id] = record._replace(**told)

    def heartbeat(self, worker: WorkerInfo) -> str | None:
        """A worker lives; what an operator wants of it."""
        with self._state as state:
            known = state.workers.get(worker.id)
            self.register(worker)
            wanted = "quiet" if known is None and worker.status == "quiet" else known and known.wanted
            record = state.workers[worker.id]._replace(wanted=wanted)
            state.workers[worker.id] = record if known is None else record._replace(started_at=known.started_at)
            return wanted

    def want(self, worker_id: str, wanted: str | None, command: Command) -> bool:
        """An operator wants something of a worker. There is no audit trail in memory."""
        with self._state as state:
            known = state.workers.get(worker_id)
            if known is None:
                raise errors.UnknownWorker(f"no worker has the id {worker_id}")
            check_wish(worker_id, known.status, known.wanted, wanted)
            state.workers[worker_id] = known._replace(wanted=wanted)
            return known.wanted != wanted

    def stop(self, worker_id: str) -> None:
        """A worker leaves."""
        with self._state as state:
            if worker_id in state.workers:
                now = state.clock.now()
                state.workers[worker_id] = state.workers[worker_id]._replace(
                    status="stopped", running=0, stopped_at=now, heartbeat_at=now
                )


class MemoryLogs:
    """``LogPort``."""

    def __init__(self, state: State) -> None:
        self._state = state

    def write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append log lines."""
        with self._state as state:
            state.logs += [LogRecord(**line) for line in lines]

    def count(self, job_ids: Collection[str], most: int) -> dict[str, int]:
        """The number of lines of each job, up to a bound."""
        with self._state as state:
            return {id: min(most, sum(line.job_id == id for line in state.logs)) for id in job_ids}

    def record_omitted(self, fence: Fence, number: int) -> None:
        """Say how many lines more were left out."""
        with self._state as state:
            text = f"{number} further lines were left out"
            state.logs.append(LogRecord(fence[0], fence[1], "warning", text, state.clock.now()))


class MemoryRedactions:
    """``RedactionPort``."""

    def __init__(self) -> None:
        self.written: set[tuple[str, str]] = set()

    def write(self, wanted: Iterable[tuple[str, str]], connection: Any = None) -> None:
        """Add secret keys of jobs."""
        self.written |= set(wanted)

    def by_name(self, connection: Any = None) -> dict[str, tuple[str, ...]]:
        """The secret keys by the names of jobs."""
        names = {name for name, _ in self.written}
        return {name: tuple(sorted(key for of, key in self.written if of == name)) for name in names}


class MemoryWatcher:
    """Waits for the next enqueue."""

    def __init__(self, news: threading.Event) -> None:
        self._news = news

    def wait(self, seconds: float) -> bool:
        """True as soon as there is news."""
        heard = self._news.wait(seconds)
        self._news.clear()
        return heard

    def close(self) -> None:
        """There is no connection."""
