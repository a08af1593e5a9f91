"""Logging with the fields of the job on every record that is written inside a handler, and formats that show them.

A worker gives the fields to every logging handler that is there when it starts. One that is added later takes them by
``handler.addFilter(JobFilter())``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from sloppyjobs import errors
from sloppyjobs.domain import payload
from sloppyjobs.domain.log_lines import one_line
from sloppyjobs.domain.model import Claim, Job
from sloppyjobs.domain.redaction.redactor import Redactor

FIELDS = ("job_id", "job_name", "queue", "attempt", "correlation_id")
"""The fields of a record that is written inside a handler."""

_FIELDS = frozenset(FIELDS)

FIELDS_LIMIT = 8_000
"""Bytes of JSON that the fields of one log line may have."""
VALUE_LIMIT, VALUE_TEXT = 2_000, 500

TEXT_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

ATTEMPTS = "sloppyjobs.attempts"
"""The logger of how attempts ended; its messages name the job themselves."""

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
    return fields_of(attempt.claim.job, attempt.claim.attempt)


def fields_of(job: Job, attempt: int) -> dict[str, Any]:
    """The fields of records about an attempt: names on one line, the correlation id without secrets."""
    return {
        "job_id": job.id,
        "job_name": one_line(job.name),
        "queue": one_line(job.queue),
        "attempt": attempt,
        "correlation_id": shown_correlation(job),
    }


def shown_correlation(job: Job) -> str:
    """The correlation id of a job without secrets; its own id where it has none."""
    return job.id if job.correlation_id is None else _shown_id(job.correlation_id)


@lru_cache(maxsize=1_024)
def _shown_id(text: str) -> str:
    return one_line(Redactor().text(text))


def indented(text: str) -> str:
    """Text of several lines, each of them indented, and its other control characters escaped."""
    text = text.replace("\t", "    ").rstrip("\n")
    if not text.replace("\n", "").isprintable():
        text = "\n".join(map(one_line, text.split("\n")))
    return "  " + text.replace("\n", "\n  ")


class JobFilter(logging.Filter):
    """Gives records the fields of the running job; None outside of handlers. It lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; what the application has set itself stays."""
        known = record.__dict__
        if not known.keys() >= _FIELDS:
            fields = job_fields()
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


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What came as ``extra`` with a record; without the fields of the job whose handler is running here."""
    job = job_fields()
    return {
        name: value
        for name, value in record.__dict__.items()
        if name not in _OWN and name[:1] != "_" and not (name in FIELDS and value in (None, job.get(name)))
    }


def json_fields(fields: Mapping[str, Any]) -> str | None:
    """Fields of a log line as JSON of a bounded size; values that are not JSON, or too large, as text."""
    if not fields:
        return None
    try:
        return payload.encode(dict(fields), FIELDS_LIMIT, what="fields")
    except errors.InvalidPayload:
        pass
    bounded: dict[str, Any] = {}
    left = FIELDS_LIMIT
    for position, (name, value) in enumerate(fields.items()):
        text, shown = _json_value(value)
        left -= len(text) + 100
        if left < 0:
            bounded["…"] = f"{len(fields) - position} more"
            break
        bounded[payload.clean_text(name, 100)] = shown
    return payload.encode(bounded, what="fields")


def _json_value(value: object) -> tuple[str, object]:
    try:
        return payload.encode(value, VALUE_LIMIT), value
    except errors.InvalidPayload:
        text = payload.clean_text(value, VALUE_TEXT)
        return text, text


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


class OwnRecords(logging.Filter):
    """Hides secrets in what the library itself logs: errors of databases and of hooks repeat what they were given."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the message and the traceback; the exception itself is left out where it holds a secret."""
        redactor = Redactor()
        message = record.getMessage()
        clean = redactor.text(message)
        if clean != message:
            record.msg, record.args = clean, None
        if record.exc_info and not record.exc_text:
            trace = logging.Formatter().formatException(record.exc_info)
            hidden = redactor.text(trace)
            if hidden != trace:
                record.exc_text, record.exc_info = hidden, None
        return True


OWN_LOGGERS = (
    "sloppyjobs.batches",
    "sloppyjobs.hooks",
    "sloppyjobs.limits",
    "sloppyjobs.recurring",
    "sloppyjobs.supervisor",
    "sloppyjobs.worker",
)
"""The loggers of the library."""

for _name in OWN_LOGGERS:
    logging.getLogger(_name).addFilter(OwnRecords())


class TextFormatter(logging.Formatter):
    """Lines of text with the job at their end."""

    def __init__(self) -> None:
        super().__init__(TEXT_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """The line, and the job if there is one."""
        line = super().formatMessage(record)
        job_id = getattr(record, "job_id", None)
        if job_id is None or record.name == ATTEMPTS:
            return line
        name, attempt = one_line(str(getattr(record, "job_name", None))), getattr(record, "attempt", None)
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
        if record.exc_text:
            fields["exception"] = record.exc_text
        elif record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = record.stack_info
        return _as_json(fields)


def _as_json(fields: dict[str, Any]) -> str:
    try:
        return json.dumps(fields, default=_shown, skipkeys=True, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps({name: _shown(value) for name, value in fields.items()})


def _plain(value: object) -> object:
    """The value, if it is JSON; else as text."""
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
