"""The page on events: ``python docs/generators/events.py > docs/reference/events.md``.

The edges come from ``sloppyjobs/domain/states.py`` and ``sloppyjobs/admin/actions.py``; only the sentences stand here,
and one that is missing or left over is an error.
"""

from __future__ import annotations

import sys
from collections import defaultdict

from sloppyjobs.admin.actions import ACTIONS
from sloppyjobs.domain.states import EDGES, FINISHED, INITIAL, Status, event_type

INTRODUCTION = """\
# Events

<!-- Generated: python docs/generators/events.py > docs/reference/events.md -->

Every change of a job's status is an edge of one state machine and writes one event, in the same transaction. So the
events of a job, oldest first, tell its whole life, and the last one gives its status.
"""

STATUSES = {
    Status.SCHEDULED: "Not due yet.",
    Status.WAITING: "It waits for other jobs, for a permit, or for what its handler asked for: a time or a signal.",
    Status.QUEUED: "Due; the next free worker takes it.",
    Status.PROCESSING: "A worker runs it, under a lease.",
    Status.SUCCEEDED: "Done.",
    Status.FAILED: "An attempt has failed. Never seen at rest: the same transaction goes on to the next status.",
    Status.RETRYING: "Failed, and due again later.",
    Status.DEAD: "Failed, with no attempts left. Waits for an operator.",
    Status.CANCELLED: "Not wanted any more.",
    Status.PAUSED: "Held back by an operator; it remembers where it came from.",
    Status.DELETED: "Out of sight; a purge removes or archives it.",
}

EVENTS = {
    "created": "It was enqueued.",
    "due": "Its time has come.",
    "unblocked": "What it waited for has finished, or there is a permit for it.",
    "parked": "Its resource had no permit left; it waits for one without using an attempt.",
    "claimed": "A worker took it. The event has the attempt's number and the worker.",
    "succeeded": "Its handler returned.",
    "failed": "Its handler raised or ran out of time, its worker was lost, or a worker that shut down gave it back.",
    "suspended": "Its handler sleeps or waits for a signal. The attempt does not count.",
    "woken": "Its sleep is over, or its signal has come or timed out.",
    "retry_scheduled": "It will be tried again, by its retry policy or because the handler asked for it.",
    "requeued": "It is tried again at once: its worker was lost, or gave it back.",
    "dead": "No attempts are left, or the failure is not one to retry.",
    "retried": "An operator retried it, with its full number of attempts.",
    "run_now": "An operator had it run at once.",
    "paused": "An operator paused it.",
    "resumed": "An operator let it go on; it is where it was before.",
    "cancelled": "An operator or its handler cancelled it.",
    "superseded": "Another job has taken its place, which `superseded_by` names.",
    "deleted": "An operator or the retention deleted it.",
}


def document() -> str:
    """The page."""
    edges = _edges()
    if set(edges) != set(EVENTS) or set(STATUSES) != set(Status):
        raise SystemExit(f"describe in {__file__}: {set(edges) ^ set(EVENTS) | set(STATUSES) ^ set(Status)}")
    lines = [INTRODUCTION, "## Event types\n", "| event | from → to | when |", "|---|---|---|"]
    for name, meaning in EVENTS.items():
        walked = "<br>".join(f"{source} → {target}" for source, target in sorted(edges[name]))
        lines.append(f"| `{name}` | {walked} | {meaning} |")
    lines += ["\n## Statuses\n", "| status | meaning | can become |", "|---|---|---|"]
    for status, meaning in STATUSES.items():
        after = ", ".join(sorted(EDGES[status])) or "nothing: it is final"
        lines.append(f"| `{status}` | {meaning} | {after} |")
    ends = ", ".join(f"`{status}`" for status in Status if status in FINISHED)
    return "\n".join([*lines, f"\nFinished are {ends}: nothing happens to such a job unless an operator acts.\n"])


def _edges() -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for target in INITIAL:
        found[event_type(None, target)].add(("—", target.value))
    for source, targets in EDGES.items():
        for target in targets:
            found[event_type(source, target)].add((source.value, target.value))
    for action in ACTIONS.values():
        if action.target is not None:
            found[action.event] |= {(source.value, action.target.value) for source in action.sources}
    replaceable = {source for source, targets in EDGES.items() if Status.CANCELLED in targets} - {Status.PROCESSING}
    found["superseded"] = {(source.value, Status.CANCELLED.value) for source in replaceable}
    found["woken"] = {(Status.WAITING.value, Status.QUEUED.value)}
    return found


if __name__ == "__main__":
    sys.stdout.write(document())
