"""What a worker reports of itself: job fields and captured logs, metrics and health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sloppyjobs.domain import options
from sloppyjobs.internals import internals
from sloppyjobs.logs import stamp_handlers
from sloppyjobs.observe.hooks import log_level
from sloppyjobs.worker.observe.captured_logs import captured_logs
from sloppyjobs.worker.observe.settlement_hooks import SettlementHooks
from sloppyjobs.worker.stuck import GRACE_SECONDS

if TYPE_CHECKING:
    from sloppyjobs.jobs import Jobs
    from sloppyjobs.worker.loop import WorkerLoop
    from sloppyjobs.worker.observe.endpoint import Endpoint
    from sloppyjobs.worker.observe.metrics import LoopStatus

STALL_TIMEOUT = 10.0
"""A loop that has not turned for so many seconds, or for three of its polls, is not healthy."""
QUEUES = 500
HOOKS_SECONDS = 5.0
"""How long hooks may go on when the worker stops."""


class Observation:
    """What a worker was asked to report. Making it opens nothing."""

    def __init__(
        self,
        jobs: Jobs,
        worker_id: str,
        *,
        capture_logs: bool | int | str | None,
        metrics_port: int | Sequence[int] | None,
        metrics_host: str,
    ) -> None:
        self._jobs = jobs
        self._worker_id = worker_id
        self._level = log_level("capture_logs", capture_logs)
        self._ports = _ports(metrics_port)
        self._host = options.text("metrics_host", metrics_host)
        self._endpoint: Endpoint | None = None
        self.settlement_hooks = SettlementHooks(internals(jobs).hooks, jobs.storage, jobs.definitions)

    @property
    def metrics_url(self) -> str | None:
        """Where the metrics are served, while they are."""
        return None if self._endpoint is None else self._endpoint.url

    def open(self, loop: Callable[[], WorkerLoop]) -> None:
        """Serve the metrics, if they were asked for; ``JobsError`` where no port is free."""
        if self._ports is None:
            return
        from sloppyjobs.worker.observe.endpoint import Endpoint, worker_pages  # noqa: PLC0415 - only for those who ask
        from sloppyjobs.worker.observe.metrics import WorkerMetrics  # noqa: PLC0415

        def current() -> LoopStatus:
            return loop_status(loop())

        metrics = WorkerMetrics(current, lambda: self._jobs.admin.list_queues(page_size=QUEUES))
        stall_timeout = max(STALL_TIMEOUT, 3 * loop().settings.poll_interval)
        self._endpoint = Endpoint(self._host, self._ports, worker_pages(metrics, current, stall_timeout))
        self.settlement_hooks.metrics = metrics

    def close(self) -> None:
        """Stop serving, and let the last hooks finish."""
        self.settlement_hooks.close(HOOKS_SECONDS)
        self.settlement_hooks.metrics = None
        if self._endpoint is not None:
            self._endpoint.close()
            self._endpoint = None

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Log records know their jobs, and jobs keep their log records, for the length of a block."""
        stamp_handlers()
        with captured_logs(self._worker_id, self._level, internals(self._jobs).hooks.log_levels):
            yield


def loop_status(loop: WorkerLoop) -> LoopStatus:
    """What a worker's loop is doing."""
    from sloppyjobs.worker.observe.metrics import LoopStatus  # noqa: PLC0415 - only for those who ask

    return LoopStatus(
        turns=loop.turns,
        since_turn=time.monotonic() - loop.turned_at,
        running=loop.tasks.running(),
        concurrency=loop.settings.concurrency,
        draining=loop.draining,
        stuck=loop.tasks.stuck.reported(),
        full=tuple(sorted(loop.full(GRACE_SECONDS))),
    )


def _ports(given: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    ports = options.listed("metrics_port", given) if isinstance(given, Sequence) else [given]
    if not ports:
        raise options.refuse("metrics_port", given, "must name at least one port")
    return tuple(options.whole("metrics_port", port, least=0, most=65_535) for port in ports)
