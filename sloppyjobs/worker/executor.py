"""Running one attempt: decode, validate, call, and say what came of it. Outside any transaction."""

from __future__ import annotations

import logging
import random
from contextlib import suppress
from functools import lru_cache
from typing import Any, cast

import msgspec

from sloppyjobs import errors
from sloppyjobs.domain import failures, options, payload
from sloppyjobs.domain.model import DEFAULT_RETRY, Claim
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import Cancelled, Failed, Failure, Outcome, Snoozed, Succeeded
from sloppyjobs.enqueue.definitions import Cancel, Definition, RetryLater, Snooze
from sloppyjobs.logs import running
from sloppyjobs.worker.task import Task

log = logging.getLogger("sloppyjobs.worker")

_SUCCEEDED = Succeeded()


def run(task: Task) -> Outcome:
    """Run a plain handler to its end. Whatever happens, there is an outcome."""
    try:
        return _run(task)
    except BaseException as error:
        return _our_fault(task, error)


async def run_async(task: Task) -> Outcome:
    """Run a coroutine handler to its end. Whatever happens, there is an outcome; a cancellation is a failure too."""
    try:
        return await _run_async(task)
    except GeneratorExit:
        # Not the handler's: the coroutine is closed, because its event loop has gone.
        raise
    except BaseException as error:
        return _our_fault(task, error)


def _run(task: Task) -> Outcome:
    try:
        value = argument(task)
    except errors.InvalidPayload as error:
        return refused(error)
    token = running.set(task)
    try:
        returned = task.handler(task.context, value)  # type: ignore[misc]
    except BaseException as error:
        return raised(task, error)
    finally:
        running.reset(token)
    return returned_value(task, returned)


async def _run_async(task: Task) -> Outcome:
    try:
        value = argument(task)
    except errors.InvalidPayload as error:
        return refused(error)
    except BaseException as error:
        return _our_fault(task, error)
    token = running.set(task)
    try:
        returned = await task.handler(task.context, value)  # type: ignore[misc]
    except BaseException as error:
        return raised(task, error)
    finally:
        # A coroutine whose event loop has gone is closed from another context.
        with suppress(ValueError):
            running.reset(token)
    return returned_value(task, returned)


def argument(task: Task) -> Any:
    """The payload as the handler wants it, or ``InvalidPayload``."""
    try:
        value = task.claim.payload
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise errors.InvalidPayload(f"the stored payload is not JSON: {error}") from error
    schema = task.definition.input
    return value if schema is None else payload.convert(value, schema)


def refused(error: errors.InvalidPayload) -> Outcome:
    """A payload that does not fit will not fit next time: dead at once."""
    return Failed(failures.from_exception(error), 0.0, retryable=False)


def unreadable(damage: str) -> Outcome:
    """A row that is damaged will not heal by itself: dead at once, until somebody repairs and retries it."""
    return Failed(failures.from_damage(damage), 0.0, retryable=False)


def returned_value(task: Task, value: Any) -> Outcome:
    """What a handler's return value means."""
    if value is None:
        return _SUCCEEDED
    # By the type itself: ``isinstance`` would ask the value, which may answer with an exception.
    if issubclass(type(value), Snooze):
        return Snoozed(options.seconds("seconds", value.seconds))
    if issubclass(type(value), Cancel):
        return Cancelled(payload.clean_text(value.reason, failures.MESSAGE_LIMIT))
    try:
        return Succeeded(payload.encode(value, what="result"))
    except BaseException as error:
        # The work is done and must not be done again because of what cannot be kept of it.
        why = payload.clean_text(error, failures.MESSAGE_LIMIT)
        _say(logging.WARNING, "job %s succeeded, but its result was not kept: %s", task.claim.id, why)
        task.context.log("warning", f"the result was not kept: {why}")
        return Succeeded()


def raised(task: Task, error: BaseException) -> Failed:
    """What an exception means, by the job's retry policy. Nothing in its own methods can keep the attempt open."""
    try:
        policy = retry_policy(task.claim, task.definition)
        if issubclass(type(error), RetryLater):
            return Failed(failures.from_exception(error), options.seconds("after", cast(RetryLater, error).after))
        return Failed(failures.from_exception(error), _delay(policy, task), retryable=_retries(policy, error))
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


# Most jobs of a kind have the same text.
_stored_policy = lru_cache(maxsize=256)(Retry.from_json)


def _retries(policy: Retry, error: BaseException) -> bool:
    try:
        return policy.retries(error)
    except BaseException as problem:
        _say(logging.ERROR, "a retry policy failed; the default is used instead: %s", payload.clean_text(problem, 500))
        return issubclass(type(error), Exception)


def _delay(policy: Retry, task: Task) -> float:
    try:
        # A run time beyond the calendar could not be written, and would keep the whole batch from being settled.
        return min(policy.delay(task.claim.attempt, random.random()), options.LONGEST)  # noqa: S311
    except BaseException as problem:
        text = payload.clean_text(problem, 500)
        _say(logging.ERROR, "the backoff of %r failed; the default is used instead: %s", task.claim.job.name, text)
        return DEFAULT_RETRY.delay(max(1, task.claim.attempt), random.random())  # noqa: S311


def _our_fault(task: Task, error: BaseException) -> Outcome:
    """An error of this module, not of the handler: the attempt must not be left without an end."""
    failure = raised(task, error).failure
    _say(logging.ERROR, "job %s could not be executed: %s", task.claim.id, failure.traceback or failure.message)
    return Failed(failure, _delay(DEFAULT_RETRY, task))


def _say(level: int, message: str, *arguments: object) -> None:
    """Log; what a log handler of the application raises must not keep an attempt from ending."""
    with suppress(BaseException):
        log.log(level, message, *arguments)
