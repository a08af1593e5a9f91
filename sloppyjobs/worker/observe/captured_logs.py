"""Captured logs: what loggers say inside handlers, kept with the job as ``ctx.log`` keeps lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sloppyjobs.logs import extra_fields, running
from sloppyjobs.worker.task import Task

_WORDS = {50: "critical", 40: "error", 30: "warning", 20: "info", 10: "debug"}
"""Logging's levels in the words of ``ctx.log``."""


class CaptureHandler(logging.Handler):
    """Hands records of one worker's handlers on to their jobs; ``levels`` by name win over the worker's ``level``."""

    def __init__(self, worker_id: str, level: int | None, levels: Mapping[str, int | None]) -> None:
        super().__init__()
        self._worker_id = worker_id
        self._least = level
        self._levels = levels

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record with the job whose handler wrote it."""
        task: Task | None = running.get()
        if task is None or task.finished or task.claim.worker_id != self._worker_id:
            return
        least = self._levels.get(task.claim.job.name, self._least)
        # What the worker itself has to say of a job goes to its log by another way.
        if least is None or record.levelno < least or record.name.partition(".")[0] == "sloppyjobs":
            return
        try:
            fields = {"logger": record.name, **extra_fields(record)}
            task.context.log_line(_word(record.levelno), self.format(record), fields)
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


def _word(number: int) -> str:
    return _WORDS[min(50, max(10, number // 10 * 10))]
