"""A command that lost a race, in the words of operators.

The core raises ``InvalidTransition`` with a sentence for a log: both states, the command, and what else is possible.
"""

from __future__ import annotations

import re

from sloppyjobs import errors
from sloppyjobs.states import Status

CHANGED = "This job changed before your action. Nothing was done."
NOT_DONE = "Nothing was done."
_STATUS = "|".join(Status)
_FOUND = re.compile(
    rf"(?:job \S+ )?(?:is|became) (?P<status>{_STATUS})\b(?: and cannot become [a-z]+ by (?P<action>[a-z_]+))?"
)
"""About one job; other sentences are of the core's own, and are shown as they are."""
_DONE_TO_IT = {
    "cancel": "cancelled",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "retry": "retried",
    "run_now": "run now",
}
_BECAME = {"cancelled": "was", "deleted": "was", "succeeded": "has"}


def title(error: errors.InvalidTransition) -> str:
    """What has happened, in a sentence."""
    return CHANGED if _FOUND.match(str(error)) else NOT_DONE


def reason(error: errors.InvalidTransition) -> str:
    """``It was deleted, so it can't be retried.``; what the core says, where that is something else."""
    found = _FOUND.match(str(error))
    if found is None:
        said = str(error)
        return f"It {said}." if said[:1].islower() else f"{said}."
    verb = _BECAME.get(found["status"], "is")
    done = _DONE_TO_IT.get(found["action"] or "")
    if done:
        return f"It {verb} {found['status']}, so it can't be {done}."
    return f"It {verb} {found['status']}{' now' if verb == 'is' else ''}."
