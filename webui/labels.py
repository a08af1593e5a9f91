"""Which icon, label or class belongs to which command, reason, attempt status and log level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sloppyjobs.domain.states import AttemptStatus
from sloppyjobs.views import StepView

COMMAND_ICONS: Mapping[str, str] = {
    "retry": "retrying",
    "run": "play",
    "pause": "pause",
    "resume": "play",
    "cancel": "cancelled",
    "delete": "deleted",
}
"""The icon of a command on jobs, by the word in its URL."""
COMMAND_LABELS: Mapping[str, str] = {
    "retry": "Retry",
    "run": "Run now",
    "pause": "Pause",
    "resume": "Resume",
    "cancel": "Cancel",
    "delete": "Delete",
}
"""The words on the button of a command on jobs."""
ENDING_COMMANDS = frozenset({"cancel", "delete"})
"""Commands that end a job: they are asked about first, and their buttons look destructive."""

REASON_ICONS: Mapping[str, str] = {
    "finished": "succeeded",
    "cancelled": "cancelled",
    "deleted": "deleted",
    "dead": "x",
    "still_running": "warn",
    "running": "processing",
    "overrun": "warn",
    "worker_gone": "warn",
    "lease_expired": "warn",
    "paused": "paused",
    "waiting": "waiting",
    "blocker": "waiting",
    "asleep": "scheduled",
    "signal": "signal",
    "signal_timeout": "scheduled",
    "not_due": "scheduled",
    "queue_paused": "paused",
    "no_worker": "warn",
    "quiet_worker": "pause",
    "silent_worker": "warn",
    "no_handler": "warn",
    "expires": "scheduled",
    "payload_newer": "warn",
    "jobs_ahead": "queued",
    "ageing": "queued",
    "permit": "waiting",
    "not_limited": "queued",
    "attempts": "retrying",
    "next": "right",
}
"""The icon of a reason in an explanation, by its code; ``info`` for any other."""
REASON_CLASSES: Mapping[str, str] = {
    "dead": "bad",
    "still_running": "warn",
    "overrun": "warn",
    "worker_gone": "warn",
    "lease_expired": "warn",
    "no_worker": "warn",
    "silent_worker": "warn",
    "no_handler": "warn",
    "payload_newer": "warn",
}
"""The class of a reason's icon, by the reason's code; ``mut`` for any other."""

TROUBLED = frozenset({"overrun", "worker_gone", "lease_expired"})
"""Reasons why a job that counts as running may not be."""
_WHY_TITLES: Mapping[str, str] = {
    "running": "Running now",
    "overrun": "Running longer than its timeout",
    "worker_gone": "Its worker is gone",
    "lease_expired": "Its worker is gone",
    "finished": "How it ended",
    "cancelled": "How it ended",
    "deleted": "How it ended",
}

ATTEMPT_KINDS: Mapping[str, str] = {
    AttemptStatus.RUNNING: "processing",
    AttemptStatus.SUCCEEDED: "succeeded",
    AttemptStatus.FAILED: "failed",
    AttemptStatus.TIMED_OUT: "failed",
    AttemptStatus.LOST: "failed",
    AttemptStatus.CANCELLED: "cancelled",
    AttemptStatus.SNOOZED: "scheduled",
    AttemptStatus.RELEASED: "queued",
    AttemptStatus.SUSPENDED: "waiting",
}
"""The job status whose icon and colour an attempt has, by the attempt's status."""
ATTEMPT_LABELS: Mapping[str, str] = {
    AttemptStatus.RUNNING: "Running",
    AttemptStatus.SUCCEEDED: "Succeeded",
    AttemptStatus.FAILED: "Failed",
    AttemptStatus.TIMED_OUT: "Timed out",
    AttemptStatus.LOST: "Lease lost",
    AttemptStatus.CANCELLED: "Cancelled",
    AttemptStatus.SNOOZED: "Snoozed",
    AttemptStatus.RELEASED: "Released",
    AttemptStatus.SUSPENDED: "Suspended",
}
"""How an attempt ended, in words."""

_EVENT_LABELS: Mapping[str, str] = {
    "parked": "Waits for a permit",
    "unblocked": "Nothing to wait for any more",
    "woken": "Woken up",
}
"""What an event is called where its own name is a word of ours."""

LEVEL_CLASSES: Mapping[str, str] = {"critical": "bad", "error": "bad", "warning": "warn"}
"""The class of a log line's level; ``mut`` for any other."""


STEP_KINDS: Mapping[str, str] = {
    "done": "succeeded",
    "waiting": "waiting",
    "ready": "queued",
    "early": "queued",
    "timed_out": "failed",
}
"""The job status whose icon and colour a step has, by the step's state."""
_STEP_LABELS: Mapping[str, str] = {
    "done": "Done",
    "waiting": "Waiting",
    "ready": "Ready",
    "early": "Kept",
    "timed_out": "Timed out",
}


def step_label(kind: str, state: str) -> str:
    """The state of a step, in words."""
    if kind == "sleep":
        return {"waiting": "Asleep", "ready": "Over", "done": "Over"}.get(state, _STEP_LABELS[state])
    if kind == "signal":
        return {"ready": "Received", "done": "Received"}.get(state, _STEP_LABELS[state])
    return _STEP_LABELS[state]


def event_label(event: str) -> str:
    """What happened to a job, in words."""
    return _EVENT_LABELS.get(event) or event.replace("_", " ").capitalize()


def steps_in_words(steps: Sequence[StepView]) -> str:
    """``3 done, 1 waiting``"""
    done = sum(one.state in ("done", "ready") for one in steps)
    waiting = sum(one.state == "waiting" for one in steps)
    return f"{done} done" + (f", {waiting} waiting" if waiting else "")


def why_title(code: str) -> str:
    """The heading above a verdict, by the code of its reason."""
    return _WHY_TITLES.get(code, "Why is it not running?")


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun: ``1 job``, ``2,000 jobs``, ``1 entry``, ``2 entries``."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
