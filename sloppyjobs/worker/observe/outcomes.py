"""The names of outcomes, as metrics, logs and summaries show them."""

from __future__ import annotations

from sloppyjobs.domain.states import AttemptStatus, Decision, Status

_NAMED_BY_ATTEMPT = (AttemptStatus.SNOOZED, AttemptStatus.RELEASED, AttemptStatus.LOST, AttemptStatus.SUSPENDED)


def outcome_name(decision: Decision) -> str:
    """How an attempt ended: succeeded, retrying, dead, cancelled, snoozed, suspended, released or lost.

    Lost is one whose lease expired and whose job is queued again.
    """
    status = decision.path[-1]
    if decision.attempt in _NAMED_BY_ATTEMPT and status is not Status.DEAD:
        return decision.attempt.value
    return "retrying" if decision.retries else status.value
