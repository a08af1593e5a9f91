"""Captured logs: records that are logged inside handlers, stored with the job as ``ctx.log`` stores lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sloppyjobs.logs import extra_fields, running
from sloppyjobs.worker.task import Task

_LEVEL_NAMES = {50: "critical", 40: "error", 30: "warning", 20: "info", 10: "debug"}
"""Logging's levels by the names of ``ctx.log``."""


class CaptureHandler(logging.Handler):
    """Stores records of one worker's handlers with their jobs; ``levels`` by name win over the worker's ``level``."""

    def __init__(self, worker_id: str, level: int | None, levels: Mapping[str, int | None]) -> None:
        super().__init__()
        self._worker_id = worker_id
        self._level = level
        self._levels = levels

    def emit(self, record: logging.LogRecord) -> None:
        """Store the record with the job whose handler logged it."""
        task: Task | None = running.get()
        if task is None or task.finished or task.claim.worker_id != self._worker_id:
            return
        level = self._levels.get(task.claim.job.name, self._level)
        # The worker's own records of a job are stored elsewhere.
        if level is None or record.levelno < level or record.name.partition(".")[0] == "sloppyjobs":
            return
        try:
            fields = {"logger": record.name, **extra_fields(record)}
            task.context.log_line(_level_name(record.levelno), self.format(record), fields)
        except Exception:
            self.handleError(record)


@contextmanager
def captured_logs(worker_id: str, level: int | None, levels: Mapping[str, int | None]) -> Iterator[None]:
    """Capture for the length of a block, if there is anything to capture."""
    if level is None and not any(one is not None for one in levels.values()):
        yield
        return
    handler = CaptureHandler(worker_id, level, levels)
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def _level_name(number: int) -> str:
    return _LEVEL_NAMES[min(50, max(10, number // 10 * 10))]
