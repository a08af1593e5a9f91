"""The commands on a job: from which states each is allowed, and what it does. Pure functions of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sloppyjobs import errors
from sloppyjobs.domain import options
from sloppyjobs.domain.model import DEFAULT_RETRY
from sloppyjobs.domain.retry import Retry
from sloppyjobs.domain.states import EDGES, FINISHED, Status, WaitingFor, allowed
from sloppyjobs.enqueue.definitions import Definitions
from sloppyjobs.storage.ports.operators import Decide, JobState, Step

_MOST_ATTEMPTS = 2**31 - 1


class Action(NamedTuple):
    """A command: where it is allowed, where it leads, and in which states its effect is there already."""

    name: str
    sources: frozenset[Status]
    done: frozenset[Status]
    target: Status | None
    """None leads back to where the job was paused from."""
    event: str


def _into(target: Status) -> frozenset[Status]:
    return frozenset(status for status in Status if allowed(status, target))


_PAUSABLE = _into(Status.PAUSED)
_MAY_WAIT = frozenset({Status.WAITING, Status.PAUSED})

ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action("retry", frozenset({Status.DEAD}), frozenset({Status.QUEUED}), Status.QUEUED, "retried"),
        Action(
            "run_now",
            frozenset({Status.SCHEDULED, Status.RETRYING, Status.PAUSED}),
            frozenset({Status.QUEUED}),
            Status.QUEUED,
            "run_now",
        ),
        Action("pause", _PAUSABLE, frozenset({Status.PAUSED}), Status.PAUSED, "paused"),
        Action("resume", frozenset({Status.PAUSED}), _PAUSABLE, None, "resumed"),
        Action(
            "cancel",
            _into(Status.CANCELLED),
            frozenset({Status.CANCELLED}),
            Status.CANCELLED,
            "cancelled",
        ),
        Action("delete", _into(Status.DELETED), frozenset({Status.DELETED}), Status.DELETED, "deleted"),
    )
}
"""Every command on a job, in the order in which they are shown."""


@lru_cache(maxsize=128)
def actions_for(status: Status, waiting_for: str | None = None) -> tuple[str, ...]:
    """The commands that are allowed in a state; of jobs that wait, paused or not, those that sleep can be run now."""
    return tuple(name for name, action in ACTIONS.items() if _takes(action, status, waiting_for))


def _takes(action: Action, status: Status, waiting_for: str | None) -> bool:
    if action.name == "run_now" and status in _MAY_WAIT and waiting_for is not None:
        # Whatever else it waits for would not be there: parents, a signal, a permit.
        return waiting_for == WaitingFor.SLEEP
    return status in action.sources


def action_named(name: object) -> Action:
    """The command of that name; ``InvalidOption`` names those there are."""
    found = ACTIONS.get(name) if isinstance(name, str) else None
    if found is None:
        raise options.refuse("action", name, "must be one of " + ", ".join(map(repr, ACTIONS)))
    return found


def decision(action: Action, definitions: Definitions) -> Decide:
    """What the command means for a job: a step, None where its effect is there, or ``InvalidTransition``."""

    def decide(job: JobState) -> Step | None:
        if job.status in action.done:
            return None
        target = action.target or job.paused_from or Status.QUEUED
        if not _takes(action, job.status, job.waiting_for):
            raise _refused(action, job, target)
        budget = None
        if action.name == "retry":
            attempts = policy(job, definitions).max_attempts
            budget = min(job.attempt_count + attempts, _MOST_ATTEMPTS)
        return Step(
            target,
            action.event,
            paused_from=job.status if target is Status.PAUSED else None,
            run_now=action.name in ("retry", "run_now"),
            max_attempts=budget,
        )

    return decide


def policy(job: JobState, definitions: Definitions) -> Retry:
    """The retry policy that was stored with the job, else its definition's, else the default."""
    if job.retry_policy is not None:
        return _stored_policy(job.retry_policy)
    definition = definitions.get(job.name)
    return DEFAULT_RETRY if definition is None else definition.retry


@lru_cache(maxsize=256)
def _stored_policy(text: str) -> Retry:
    try:
        return Retry.from_json(text)
    except errors.InvalidOption:
        # A row that somebody damaged by hand can still be retried.
        return DEFAULT_RETRY


def _refused(action: Action, job: JobState, target: Status) -> errors.InvalidTransition:
    possible = ", ".join(actions_for(job.status, job.waiting_for))
    if possible:
        advice = f"what it can take is {possible}"
    elif job.status in FINISHED and not EDGES[job.status]:
        advice = "nothing can be done to it any more"
    else:
        advice = "it takes no command in this state"
    return errors.InvalidTransition(
        f"job {job.id} is {job.status} and cannot become {target} by {action.name}; {advice}",
        status=job.status,
        command=action.name,
    )
