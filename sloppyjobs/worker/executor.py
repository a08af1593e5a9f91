"""Running one attempt: decode, validate, call, and say what came of it. Outside any transaction."""

from __future__ import annotations

import logging
import random
from typing import Any

import msgspec

from sloppyjobs import errors, failures, payload
from sloppyjobs.definitions import Cancel, Definition, RetryLater, Snooze
from sloppyjobs.logs import running
from sloppyjobs.model import DEFAULT_RETRY, Claim
from sloppyjobs.retry import Retry
from sloppyjobs.states import Cancelled, Failed, Failure, Outcome, Snoozed, Succeeded
from sloppyjobs.worker.task import Task

log = logging.getLogger("sloppyjobs.worker")

_SUCCEEDED = Succeeded()


def run(task: Task) -> Outcome:
    """Run a plain handler to its end. Whatever happens, there is an outcome."""
    try:
        return _run(task)
    except Exception as error:
        return _our_fault(task, error)


async def run_async(task: Task) -> Outcome:
    """Run a coroutine handler to its end; its cancellation goes to the caller."""
    try:
        return await _run_async(task)
    except Exception as error:
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
    token = running.set(task)
    try:
        returned = await task.handler(task.context, value)  # type: ignore[misc]
    except Exception as error:
        return raised(task, error)
    finally:
        running.reset(token)
    return returned_value(task, returned)


def argument(task: Task) -> Any:
    """The payload as the handler wants it, or ``InvalidPayload``."""
    try:
        value = task.claim.payload
    except ValueError as error:
        raise errors.InvalidPayload(f"the stored payload is not JSON: {error}") from error
    schema = task.definition.input
    return value if schema is None else payload.convert(value, schema)


def refused(error: errors.InvalidPayload) -> Outcome:
    """A payload that does not fit will not fit next time: dead at once."""
    return Failed(failures.from_exception(error), 0.0, retryable=False)


def returned_value(task: Task, value: Any) -> Outcome:
    """What a handler's return value means."""
    if value is None:
        return _SUCCEEDED
    if isinstance(value, Snooze):
        return Snoozed(value.seconds)
    if isinstance(value, Cancel):
        return Cancelled(value.reason)
    try:
        return Succeeded(payload.encode(value, what="result"))
    except errors.InvalidPayload as error:
        # The work is done and must not be done again because of what cannot be kept of it.
        log.warning("job %s succeeded, but its result was not kept: %s", task.claim.id, error)
        task.context.log("warning", f"the result was not kept: {error}")
        return Succeeded()


def raised(task: Task, error: BaseException) -> Outcome:
    """What an exception means, by the job's retry policy."""
    policy = retry_policy(task.claim, task.definition)
    if isinstance(error, RetryLater):
        return Failed(failures.from_exception(error), error.after)
    return Failed(failures.from_exception(error), _delay(policy, task), retryable=policy.retries(error))


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
    return Failed(failure, _delay(policy, task), retryable=policy.retries(error), timed_out=True)


def retry_policy(claim: Claim, definition: Definition) -> Retry:
    """The policy that was stored with the job; a callable backoff comes from the definition."""
    if claim.retry_json is None:
        return claim.retry
    backoff = definition.retry.backoff
    try:
        return Retry.from_json(claim.retry_json, backoff if callable(backoff) else None)
    except (ValueError, msgspec.MsgspecError) as error:
        log.warning("the stored retry policy of job %s is damaged; the definition's is used: %s", claim.id, error)
        return definition.retry


def _delay(policy: Retry, task: Task) -> float:
    try:
        return policy.delay(task.claim.attempt, random.random())  # noqa: S311
    except Exception:
        log.exception("the backoff of %r failed; the default is used instead", task.claim.job.name)
        return DEFAULT_RETRY.delay(task.claim.attempt, random.random())  # noqa: S311


def _our_fault(task: Task, error: Exception) -> Outcome:
    """An error of this module, not of the handler: the attempt must not be left without an end."""
    log.exception("job %s could not be executed", task.claim.id)
    return Failed(failures.from_exception(error), _delay(DEFAULT_RETRY, task))
