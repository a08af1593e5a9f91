"""A command that lost a race, in the words of operators.

The core raises ``InvalidTransition`` with a sentence for a log: both states, the command, and what else is possible.
"""

from __future__ import annotations

from sloppyjobs import errors
from sloppyjobs.domain.states import Status

CHANGED = "This job changed before your action. Nothing was done."
NOT_DONE = "Nothing was done."
_DONE_TO_IT = {
    "cancel": "cancelled",
    "delete": "deleted",
    "pause": "paused",
    "patch_payload": "patched",
    "resume": "resumed",
    "retry": "retried",
    "run_now": "run now",
    "signal": "signalled",
}
_BECAME = {Status.CANCELLED: "was", Status.DELETED: "was", Status.SUCCEEDED: "has"}


def title(error: errors.InvalidTransition) -> str:
    """What has happened, in a sentence."""
    return NOT_DONE if error.status is None else CHANGED


def reason(error: errors.InvalidTransition) -> str:
    """``It was deleted, so it can't be retried.``; what the core says, where that is something else."""
    if error.status is None:
        text = str(error)
        return f"It {text}." if text[:1].islower() else f"{text}."
    verb = _BECAME.get(error.status, "is")
    done = _DONE_TO_IT.get(error.command or "")
    if done:
        return f"It {verb} {error.status}, so it can't be {done}."
    return f"It {verb} {error.status}{' now' if verb == 'is' else ''}."
