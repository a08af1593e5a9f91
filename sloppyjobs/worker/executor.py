"""Running one attempt, outside any transaction: decode the payload, call the handler, interpret what came of it."""

from __future__ import annotations

import logging
import random
from contextlib import suppress
from functools import lru_cache
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, cast

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import failures, options, payload
from sloppyjobs.domain.log_lines import get_logger
from sloppyjobs.domain.model import DEFAULT_RETRY, Claim
from sloppyjobs.domain.payload import version_of
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Released, Snoozed, Succeeded, Suspended
from sloppyjobs.enqueue.definitions import Cancel, Definition, RetryLater, Snooze
from sloppyjobs.enqueue.upcasts import upcast
from sloppyjobs.logs import running
from sloppyjobs.worker.steps import only_suspended
from sloppyjobs.worker.task import Task

log = get_logger("sloppyjobs.worker")

_NOT_RUN = (CoroutineType, GeneratorType, AsyncGeneratorType)
"""What has not begun: what an ``async def`` or a function with a ``yield`` answers, behind a decorator for instance."""
_RUN = "define it, and what wraps it, with async def, or return what comes of it"
_AWAIT = "define the handler with async def, and await it"
_SUCCEEDED = Succeeded()
NEWER_SECONDS, NEWER_LONGEST = 5.0, 300.0
"""How long a job whose payload is too new is left alone: doubled with each attempt, up to the second number."""


def run(task: Task) -> Outcome:
    """Run a plain handler to its end. There is an outcome in every case."""
    try:
        return _run(task)
    except BaseException as error:
        return _internal_error(task, error)


async def run_async(task: Task) -> Outcome:
    """Run a coroutine handler to its end. There is an outcome in every case; a cancellation is a failure too."""
    try:
        return await _run_async(task)
    except GeneratorExit:
        # Not the handler's: the coroutine is closed, because its event loop has ended.
        raise
    except BaseException as error:
        return _internal_error(task, error)


def _run(task: Task) -> Outcome:
    try:
        value = decode_payload(task)
    except (errors.InvalidPayload, errors.PayloadNewer) as error:
        return invalid_payload(task, error)
    token = running.set(task)
    try:
        returned = task.handler(task.context, value)  # type: ignore[misc]
    except BaseException as error:
        return _suspended(task, error) or interpret_exception(task, error)
    finally:
        running.reset(token)
    return _suspended(task) or interpret_return(task, returned)


async def _run_async(task: Task) -> Outcome:
    try:
        value = decode_payload(task)
    except (errors.InvalidPayload, errors.PayloadNewer) as error:
        return invalid_payload(task, error)
    except BaseException as error:
        return _internal_error(task, error)
    token = running.set(task)
    try:
        returned = await task.handler(task.context, value)  # type: ignore[misc]
    except BaseException as error:
        return _suspended(task, error) or interpret_exception(task, error)
    finally:
        # A coroutine whose event loop has ended is closed from another context.
        with suppress(ValueError):
            running.reset(token)
    return _suspended(task) or interpret_return(task, returned)


def decode_payload(task: Task) -> Any:
    """The payload in the version and type that the definition asks for, or ``InvalidPayload`` or ``PayloadNewer``."""
    try:
        value = task.claim.payload
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise errors.InvalidPayload(f"the stored payload is not JSON: {error}") from error
    schema, written = task.definition.input, task.claim.job.payload_version
    if written != task.definition.stored_version and version_of(written) != task.definition.version:
        return _upcast(value, written, task.definition)
    return value if schema is None else payload.convert(value, schema)


def _upcast(value: Any, written: int | None, definition: Definition) -> Any:
    found = upcast(value, written, definition)
    try:
        # As if it had been enqueued so: an upcast may return anything.
        plain = payload.decode(payload.encode(payload.validate_input(found, definition.input)))
        return payload.convert(plain, definition.input)
    except errors.InvalidPayload as error:
        raise errors.UpcastFailed(
            f"upcast from version {version_of(written)} to {definition.version}, the payload does not fit: {error}"
        ) from error


def invalid_payload(
    task: Task, error: errors.InvalidPayload | errors.DecryptionFailed | errors.PayloadNewer
) -> Outcome:
    """A payload that cannot be read or used will not be better next time: dead at once. A newer one is for others."""
    if isinstance(error, errors.PayloadNewer):
        failure = Failure(error.code, payload.clean_text(error, failures.MESSAGE_LIMIT))
        return Released(failure, min(NEWER_SECONDS * 2.0 ** min(task.claim.attempt - 1, 10), NEWER_LONGEST))
    return Failed(failures.from_exception(error), 0.0, retryable=False)


def unreadable(damage: str) -> Outcome:
    """A damaged row stays damaged: dead at once, until somebody repairs and retries it."""
    return Failed(failures.from_damage(damage), 0.0, retryable=False)


def not_started() -> Outcome:
    """The job had expired before it could start."""
    return Cancelled(failures.EXPIRED.message, failures.EXPIRED)


def _suspended(task: Task, error: BaseException | None = None) -> Suspended | None:
    """That the handler sleeps or waits for a signal. It counts whatever became of the handler after that."""
    steps = task.context.step_log
    if steps is None:
        return None
    suspended = steps.suspended
    if suspended is not None and (error is None or not only_suspended(error)):
        how = "returned" if error is None else f"raised {payload.class_name(type(error))}"
        text = (
            f"the handler caught the suspension of its attempt and {how}; it {suspended.message} all the same. "
            "Let sloppyjobs.Suspension pass"
        )
        _log_safely(logging.WARNING, "job %s: %s", task.claim.id, text)
        with suppress(BaseException):
            task.context.log("warning", text)
    return suspended


def interpret_return(task: Task, value: Any) -> Outcome:
    """What a handler's return value means."""
    if value is None:
        return _SUCCEEDED
    # By the type itself: ``isinstance`` would read ``__class__`` of the value, which may raise.
    if issubclass(type(value), Snooze):
        return Snoozed(options.seconds("seconds", value.seconds))
    if issubclass(type(value), Cancel):
        return Cancelled(payload.clean_text(value.reason, failures.MESSAGE_LIMIT))
    if issubclass(type(value), _NOT_RUN):
        # An asynchronous generator has nothing to close before it is begun.
        if not issubclass(type(value), AsyncGeneratorType):
            value.close()
        # Nothing of the work was done: that is not a success.
        return interpret_exception(task, TypeError(f"{_returned(value)}, of which nothing was run; {_RUN}"))
    if hasattr(type(value), "__await__"):
        # A future, a task, or what a driver answers: what will become of it, nobody would hear.
        return interpret_exception(task, TypeError(f"{_returned(value)}, for which nobody waits; {_AWAIT}"))
    try:
        return Succeeded(payload.encode(value, what="result"))
    except BaseException as error:
        # The work is done and must not be repeated because its result cannot be stored.
        why = payload.clean_text(error, failures.MESSAGE_LIMIT)
        _log_safely(logging.WARNING, "job %s succeeded, but its result was not kept: %s", task.claim.id, why)
        task.context.log("warning", f"the result was not kept: {why}")
        return Succeeded()


def _returned(value: object) -> str:
    what = payload.class_name(type(value)).rpartition(".")[2]
    return f"the handler returned {'an' if what[:1] in 'aeiouAEIOU' else 'a'} {what}"


def interpret_exception(task: Task, error: BaseException) -> Failed:
    """What an exception means, by the job's retry policy. Methods of the exception that raise change nothing."""
    try:
        policy = retry_policy(task.claim, task.definition)
        if issubclass(type(error), RetryLater):
            return Failed(failures.from_exception(error), options.seconds("after", cast(RetryLater, error).after))
        if task.claim.attempt >= task.claim.job.max_attempts or issubclass(type(error), errors.SignalTimeout):
            # No policy is asked when there is no try left, or when every further one would get the same answer.
            return Failed(failures.from_exception(error), 0.0, retryable=False)
        # What cannot be decrypted now cannot be at the next try either.
        retryable = not issubclass(type(error), errors.DecryptionFailed) and _retries(policy, error)
        return Failed(failures.from_exception(error), _delay(policy, task), retryable=retryable)
    except BaseException:
        kind = payload.class_name(type(error))
        failure = Failure(errors.HandlerFailed.code, f"<{kind} that cannot be examined>", type=kind)
        return Failed(failure, _delay(DEFAULT_RETRY, task), retryable=issubclass(type(error), Exception))


def timed_out(task: Task) -> Outcome:
    """The handler did not finish in time."""
    policy = retry_policy(task.claim, task.definition)
    limit = task.claim.job.timeout or 0.0
    failure = Failure(
        errors.JobTimeout.code,
        f"the handler did not finish within {limit:g} s",
        type="sloppyjobs.errors.JobTimeout",
    )
    error = errors.JobTimeout(failure.message)
    return Failed(failure, _delay(policy, task), retryable=_retries(policy, error), timed_out=True)


def retry_policy(claim: Claim, definition: Definition) -> Retry:
    """The policy that was stored with the job; a callable backoff comes from the definition."""
    if claim.retry_json is None:
        return claim.retry
    backoff = definition.retry.backoff
    try:
        return Retry.from_json(claim.retry_json, backoff) if callable(backoff) else _stored_policy(claim.retry_json)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        log.warning("the stored retry policy of job %s is damaged; the definition's is used: %s", claim.id, error)
        return definition.retry


# Jobs of one definition mostly have the same policy.
_stored_policy = lru_cache(maxsize=256)(Retry.from_json)


def _retries(policy: Retry, error: BaseException) -> bool:
    try:
        return policy.retries(error)
    except BaseException as problem:
        _log_safely(
            logging.ERROR, "a retry policy failed; the default is used instead: %s", payload.clean_text(problem, 500)
        )
        return issubclass(type(error), Exception)


def _delay(policy: Retry, task: Task) -> float:
    try:
        # A run time beyond the calendar could not be written, and would keep the whole batch from being settled.
        return min(policy.delay(task.claim.attempt, random.random()), options.LONGEST)  # noqa: S311
    except BaseException as problem:
        text = payload.clean_text(problem, 500)
        _log_safely(
            logging.ERROR, "the backoff of %r failed; the default is used instead: %s", task.claim.job.name, text
        )
        return DEFAULT_RETRY.delay(max(1, task.claim.attempt), random.random())  # noqa: S311


def _internal_error(task: Task, error: BaseException) -> Outcome:
    """An error of this module, not of the handler: the attempt must still get an outcome."""
    failure = interpret_exception(task, error).failure
    _log_safely(logging.ERROR, "job %s could not be executed: %s", task.claim.id, failure.traceback or failure.message)
    return Failed(failure, _delay(DEFAULT_RETRY, task))


def _log_safely(level: int, message: str, *arguments: object) -> None:
    """Log; what a log handler of the application raises must not keep an attempt from ending."""
    with suppress(BaseException):
        log.log(level, message, *arguments)
