"""Jobs that sleep or wait for signals go on at once, in a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sloppyjobs.domain.states import WaitingFor
from sloppyjobs.domain.steps import StepKind
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.storage.ports.steps import StepRow


class Waking:
    """Gives suspended jobs what they wait for: the end of their sleeps, and signals by their names."""

    def __init__(self, jobs: Jobs, skip_sleeps: bool, signals: Mapping[str, Any]) -> None:
        self._jobs = jobs
        self._skip_sleeps = skip_sleeps
        self._signals = signals

    def wake(self) -> bool:
        """Let jobs go on; False where there was nothing to do."""
        if not (self._skip_sleeps or self._signals):
            return False
        waits = list(self._waits())
        sent = [
            self._jobs.signal(job_id, step.name, self._signals[step.name])
            for job_id, step in waits
            if step.kind is StepKind.SIGNAL and step.name in self._signals
        ]
        asleep = [(job_id, step) for job_id, step in waits if step.kind is StepKind.SLEEP]
        return any(sent) or bool(self._skip_sleeps and asleep and self._end_sleep(asleep))

    def _end_sleep(self, asleep: list[tuple[str, StepRow]]) -> bool:
        """The first to wake goes on, as it would have without the test."""
        job_id, step = min(asleep, key=lambda one: (one[1].wake_at is None, one[1].wake_at))
        clock = self._jobs.storage.clock
        if isinstance(clock, FakeClock) and step.wake_at is not None:
            clock.set(max(clock.now(), step.wake_at))
        else:
            self._jobs.admin.run_now(job_id)
        return True

    def _waits(self) -> Iterator[tuple[str, StepRow]]:
        cursor: str | None = None
        while True:
            page = self._jobs.admin.list_jobs("waiting", page_size=500, cursor=cursor)
            for job in page:
                if job.waiting_for in (WaitingFor.SLEEP, WaitingFor.SIGNAL):
                    yield from ((job.id, step) for step in self._jobs.storage.history.waits(job.id))
            cursor = page.next_cursor
            if cursor is None:
                return
