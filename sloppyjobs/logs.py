"""Logging that knows the job: fields on every record that is written inside a handler, and formats that show them.

A worker gives the fields to every logging handler that is there when it starts. One that is added later takes them by
``handler.addFilter(JobFilter())``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol

from sloppyjobs.model import Claim

FIELDS = ("job_id", "job_name", "queue", "attempt", "correlation_id")
"""The fields of a record that is written inside a handler."""

TEXT_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Running(Protocol):
    """An attempt that is being executed."""

    @property
    def claim(self) -> Claim:
        """The job, and which attempt of it."""


running: ContextVar[Any] = ContextVar("sloppyjobs_running", default=None)
"""The attempt (a ``Running``) whose handler this thread or coroutine is in; None outside of handlers."""


def job_fields() -> dict[str, Any]:
    """The fields of the job whose handler is running here; empty outside of handlers."""
    attempt: Running | None = running.get()
    if attempt is None:
        return {}
    claim = attempt.claim
    job = claim.job
    return dict(zip(FIELDS, (job.id, job.name, job.queue, claim.attempt, job.correlation_id or job.id), strict=True))


class JobFilter(logging.Filter):
    """Gives records the fields of the running job; None outside of handlers. It lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; what the application has set itself stays."""
        fields = job_fields()
        known = record.__dict__
        for name in FIELDS:
            known.setdefault(name, fields.get(name))
        return True


_FILTER = JobFilter()


def stamp_handlers() -> None:
    """Give a ``JobFilter`` to every logging handler that is there now; repeating it changes nothing."""
    for handler in _handlers():
        handler.addFilter(_FILTER)


def _handlers() -> Iterator[logging.Handler]:
    yield from logging.root.handlers
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


def portable(record: logging.LogRecord) -> dict[str, Any]:
    """What ``logging.makeLogRecord`` needs to make the record in another process."""
    fields = {
        name: _plain(value)
        for name, value in record.__dict__.items()
        if name not in ("args", "exc_info") and not (name in FIELDS and value is None)
    }
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
    return {**fields, "msg": record.getMessage(), "args": None}


class TextFormatter(logging.Formatter):
    """Lines for people, which name the job at their end."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """The line, and the job if there is one."""
        line = super().formatMessage(record)
        job_id = getattr(record, "job_id", None)
        if job_id is None:
            return line
        name, attempt = getattr(record, "job_name", None), getattr(record, "attempt", None)
        return f"{line} [{name} {job_id} attempt {attempt}]"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the job's fields, and whatever came as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _OWN and value is not None:
                fields.setdefault(name, value)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text
        if record.stack_info:
            fields["stack"] = record.stack_info
        return _as_json(fields)


def _as_json(fields: dict[str, Any]) -> str:
    try:
        return json.dumps(fields, default=_shown, skipkeys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps({name: _shown(value) for name, value in fields.items()})


def _plain(value: object) -> object:
    """The value, if JSON could hold it; else in words."""
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return _shown(value)
    return value


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without words>"
