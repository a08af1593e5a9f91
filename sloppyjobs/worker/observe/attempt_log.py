"""Log records of how attempts ended, for files, mail handlers and error reporters.

Every record has the fields of its job, the outcome and those of the error. Errors are redacted. The error of a
dead job is an exception of the record, so that reporters can group it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sloppyjobs.domain.log_lines import get_logger, one_line
from sloppyjobs.domain.model import Ended
from sloppyjobs.domain.redaction.redactor import Redactor
from sloppyjobs.domain.states import AttemptStatus, Failure, outcome_name
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.logs import ATTEMPTS, fields_of, shown_correlation
from sloppyjobs.worker.deferred_calls import DeferredCalls
from sloppyjobs.worker.observe.error_texts import ErrorTexts
from sloppyjobs.worker.observe.reported_error import ExcInfo, exc_info
from sloppyjobs.worker.storage import HookStorage

log = logging.getLogger(ATTEMPTS)

QUEUE_LIMIT = 5_000
"""Attempts that wait to be logged at most; what comes when the queue is full is counted, not logged."""
ERROR_LIMIT = 500
"""Characters of an error in its message."""

_FAILURES = frozenset({"retrying", "lost", "dead"})
_LOGGED: Mapping[str, frozenset[str] | None] = {
    "all": None,
    "failures": _FAILURES,
    "dead": frozenset({"dead"}),
    "none": frozenset(),
}
"""Which outcomes each value of a definition's ``log`` lets through; None for all of them."""


class _Message(NamedTuple):
    """A message in logging's form: a format string, and its arguments."""

    text: str
    arguments: tuple[object, ...]


class _Kind(NamedTuple):
    """What the records of attempts that ended alike share."""

    outcome: str
    level: int
    name: str
    error_type: str | None
    failed: bool
    """Whether the handler failed, as in most records: ``text`` is the format string then."""
    text: str
    extra: dict[str, Any]
    """The fields of the first of them."""


class Records:
    """The records of one batch, which one thread makes: what they share is found out once."""

    def __init__(self) -> None:
        self._first: dict[str, Any] | None = None
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._templates: dict[int, dict[str, Any]] = {}

    def kind(self, ended: Ended) -> _Kind:
        """What the record of this attempt shares with others."""
        job, settlement = ended
        decision, ran = settlement.decision, settlement.run_seconds is not None
        failure = decision.failure
        error = None if failure is None else (failure.type, failure.code, failure.frame)
        where = job.name, job.queue, job.max_attempts, settlement.worker_id
        key = (where, decision.path, decision.attempt, ran, error)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind(ended)
        return kind

    def make(self, kind: _Kind, ended: Ended, message: _Message, raised: ExcInfo | None) -> logging.LogRecord:
        """A record of the attempts' logger."""
        if self._first is not None:
            return self._like_first(self._first, kind, ended, message, raised)
        common = (log.name, kind.level, __file__, 0, message.text, message.arguments, raised)
        extra = _extra(ended, kind.outcome)
        if type(log).makeRecord is not logging.Logger.makeRecord:
            return log.makeRecord(*common, extra=extra)
        # The logger would compare each of the fields with those that records have, of which they are none.
        record = log.makeRecord(*common)
        record.__dict__.update(extra)
        if type(record) is logging.LogRecord and logging.getLogRecordFactory() is logging.LogRecord:
            self._first = record.__dict__.copy()
        return record

    def _like_first(
        self, first: dict[str, Any], kind: _Kind, ended: Ended, message: _Message, raised: ExcInfo | None
    ) -> logging.LogRecord:
        """Thread, process and place are those of the first record; to look for them again takes a third of the time."""
        # By identity: kinds are kept as long as the batch.
        template = self._templates.get(id(kind))
        if template is None:
            level = {"levelno": kind.level, "levelname": logging.getLevelName(kind.level), "exc_text": None}
            template = self._templates[id(kind)] = {**first, **kind.extra, **level}
        # A copy that has every field already takes half the time of a dict that grows.
        fields = template.copy()
        job, settlement = ended
        decision, created = settlement.decision, time.time()
        fields["job_id"], fields["attempt"], fields["run_seconds"] = job.id, settlement.attempt, settlement.run_seconds
        fields["correlation_id"] = shown_correlation(job)
        fields["retry_in"] = decision.delay if fields["retry_in"] is not None else None
        fields["msg"], fields["args"], fields["exc_info"] = message.text, message.arguments, raised
        fields["created"], fields["msecs"] = created, float(int(created % 1 * 1000))
        fields["relativeCreated"] = first["relativeCreated"] + (created - first["created"]) * 1000
        record = logging.LogRecord.__new__(logging.LogRecord)
        record.__dict__ = fields
        return record


class AttemptLog:
    """Logs in a thread of its own, because a mail handler may take seconds."""

    def __init__(self, definitions: Definitions, storage: HookStorage) -> None:
        self._definitions = definitions
        self._storage = storage
        self._texts = ErrorTexts(self._redactor)
        # Whole batches, because each item of the queue costs a thread switch.
        self._deferred: DeferredCalls[Sequence[Ended]] = DeferredCalls("sloppyjobs-log", self._write_all)
        self._counting = threading.Lock()
        self._taken = 0
        # Only the thread that writes counts it up.
        self._written = 0
        self._omitted = 0

    def settled(self, ended: Sequence[Ended], *, wait: bool = False) -> None:
        """These outcomes were accepted. With ``wait`` they are logged when this returns."""
        if not log.isEnabledFor(logging.DEBUG):
            ended = [one for one in ended if one.settlement.decision.attempt is not AttemptStatus.SUCCEEDED]
        wanted = self._wanted(ended)
        if wait:
            records = Records()
            for one in wanted:
                self._write(one, records)
        elif wanted:
            self._defer(wanted)

    def close(self, timeout: float) -> None:
        """Log what waits, for so many seconds at most."""
        self._deferred.close(timeout)

    def _defer(self, ended: Sequence[Ended]) -> None:
        with self._counting:
            taken = ended[: max(0, QUEUE_LIMIT - (self._taken - self._written))]
            self._taken += len(taken)
            self._omitted += len(ended) - len(taken)
        if taken:
            self._deferred.put(taken)

    def _write_all(self, ended: Sequence[Ended]) -> None:
        records = Records()
        for one in ended:
            self._written += 1
            self._write(one, records)

    def _wanted(self, ended: Sequence[Ended]) -> list[Ended]:
        """Those that are logged, by the definitions of their jobs and the level of the logger."""
        answers: dict[tuple[Any, ...], bool] = {}
        wanted = []
        for one in ended:
            settlement = one.settlement
            decision = settlement.decision
            key = one.job.name, decision.path, decision.attempt, settlement.run_seconds is None
            answer = answers.get(key)
            if answer is None:
                answer = answers[key] = self._is_wanted(one)
            if answer:
                wanted.append(one)
        return wanted

    def _is_wanted(self, ended: Ended) -> bool:
        outcome = outcome_name(ended.settlement.decision)
        if not log.isEnabledFor(_level(ended, outcome)):
            return False
        definition = self._definitions.get(ended.job.name)
        outcomes = None if definition is None else _LOGGED[definition.log]
        return outcomes is None or outcome in outcomes

    def _write(self, ended: Ended, records: Records) -> None:
        # A logging handler that raises must affect neither the worker nor the next record.
        try:
            log.handle(self._record(ended, records))
            if self._omitted:
                with self._counting:
                    omitted, self._omitted = self._omitted, 0
                log.warning("%d attempts were not logged: the logging handlers are too slow", omitted)
        except Exception:
            get_logger("sloppyjobs.worker").exception("the end of job %s could not be logged", ended.job.id)

    def _record(self, ended: Ended, records: Records) -> logging.LogRecord:
        kind, failure = records.kind(ended), ended.settlement.decision.failure
        traceback, raised = "", None
        # The message of an error is in several places of its record.
        if failure is None:
            error = ""
        elif kind.level >= logging.ERROR:
            error, traceback = self._texts.error(ended.job.name, failure)
            raised = exc_info(failure, error)
        else:
            error = self._texts.line(ended.job.name, failure.message)
        record = records.make(kind, ended, self._message(ended, kind, error), raised)
        if failure is not None and failure.traceback and raised is not None:
            # What formatters write; the exception itself is for error reporters.
            record.exc_text = traceback
        return record

    def _message(self, ended: Ended, kind: _Kind, message: str) -> _Message:
        job, settlement = ended
        decision = settlement.decision
        error = _error(decision.failure, kind.error_type, message)
        if not kind.failed:
            return self._other_message(ended, kind, error)
        if kind.outcome == "dead":
            return _Message(kind.text, (job.id, kind.name, settlement.attempt, job.max_attempts, error))
        delay = _seconds(decision.delay)
        return _Message(kind.text, (job.id, kind.name, settlement.attempt, job.max_attempts, delay, error))

    def _other_message(self, ended: Ended, kind: _Kind, error: str) -> _Message:
        job, settlement = ended
        decision = settlement.decision
        identity = (job.id, kind.name)
        match kind.outcome:
            case "succeeded":
                text = "job %s (%s) succeeded in attempt %d of %d after %s"
                took = f"{settlement.run_seconds or 0:.3f} s"
                return _Message(text, (*identity, settlement.attempt, job.max_attempts, took))
            case "snoozed":
                return _Message("job %s (%s) asks to be called again in %s", (*identity, _seconds(decision.delay)))
            case "suspended":
                return _Message("job %s (%s) %s", (*identity, one_line(decision.message or "")))
            case "cancelled":
                reason = self._texts.line(job.name, decision.message or "")
                return _Message("job %s (%s) was cancelled by its handler: %s", (*identity, reason))
            case "released" if decision.delay:
                text = "job %s (%s) is left for others, for %s at least: %s"
                return _Message(text, (*identity, _seconds(decision.delay), error))
            case "released":
                return _Message("job %s (%s) was given back by a worker that does not finish it", identity)
            case _:
                text = "job %s (%s) lost its worker %s in attempt %d; it is %s"
                arguments = (*identity, one_line(settlement.worker_id), settlement.attempt, decision.path[-1].value)
                return _Message(text, arguments)

    def _redactor(self, name: str) -> Redactor | None:
        """By the definition, or by what other processes have stored of it; None where neither is known."""
        definition = self._definitions.get(name)
        if definition is not None:
            return Redactor(definition.redact)
        try:
            return Redactor(self._storage.redactions.by_name().get(name, ()))
        except Exception:
            return None


def _kind(ended: Ended) -> _Kind:
    decision = ended.settlement.decision
    outcome, failure = outcome_name(decision), decision.failure
    failed = outcome in ("dead", "retrying") and decision.attempt is not AttemptStatus.LOST
    ends = "timed out" if decision.attempt is AttemptStatus.TIMED_OUT else "failed"
    text = f"job %s (%s) {ends} in attempt %d of %d, next try in %s: %s"
    if outcome == "dead":
        text = f"job %s (%s) is dead: it {ends} in attempt %d of %d: %s"
    error_type = one_line(failure.type) if failure and failure.type else None
    extra = _extra(ended, outcome)
    return _Kind(outcome, _level(ended, outcome), one_line(ended.job.name), error_type, failed, text, extra)


def _error(failure: Failure | None, error_type: str | None, message: str) -> str:
    """The error on one line, with this message."""
    if failure is None:
        return "no error"
    if len(message) > ERROR_LIMIT:
        message = message[:ERROR_LIMIT] + "…"
    return f"{error_type}: {message}" if error_type else message


def _level(ended: Ended, outcome: str) -> int:
    match outcome:
        case "dead":
            return logging.ERROR
        case "retrying" | "lost":
            return logging.WARNING
        case "snoozed" | "cancelled" | "suspended":
            return logging.INFO
        case "released" if ended.settlement.run_seconds is not None:
            return logging.INFO
        case _:
            return logging.DEBUG


def _extra(ended: Ended, outcome: str) -> dict[str, Any]:
    job, settlement = ended
    decision, failure = settlement.decision, settlement.decision.failure
    # The most important first: there are reporters that keep ten fields.
    return {
        **fields_of(job, settlement.attempt),
        "outcome": outcome,
        "error_type": one_line(failure.type) if failure and failure.type else None,
        "error_code": one_line(failure.code) if failure else None,
        "error_frame": one_line(failure.frame) if failure and failure.frame else None,
        "worker_id": one_line(settlement.worker_id),
        "max_attempts": job.max_attempts,
        "run_seconds": settlement.run_seconds,
        "retry_in": decision.delay if decision.retries else None,
    }


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
