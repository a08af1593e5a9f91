"""How an attempt ended, in a word; the words of metrics, logs and summaries."""

from __future__ import annotations

from sloppyjobs.domain.states import AttemptStatus, Decision, Status

_OF_THEIR_OWN = (AttemptStatus.SNOOZED, AttemptStatus.RELEASED, AttemptStatus.LOST)


def outcome(decision: Decision) -> str:
    """How an attempt ended, in a word: succeeded, retrying, dead, cancelled, snoozed, released or lost.

    Lost is one whose lease expired and whose job is queued again.
    """
    status = decision.path[-1]
    if decision.attempt in _OF_THEIR_OWN and status is not Status.DEAD:
        return decision.attempt.value
    return status.value
