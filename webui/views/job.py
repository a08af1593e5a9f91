"""One job: what it is, why it is where it is, what it did; and the commands on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple

from flask import Response, request, url_for

from sloppyjobs import errors
from sloppyjobs.admin.attention import worker_command
from sloppyjobs.admin.explain import NO_ERRORS
from sloppyjobs.admin.patches import PATCHABLE
from sloppyjobs.domain.causes import cause_id
from sloppyjobs.domain.states import FINISHED, AttemptStatus, Status
from sloppyjobs.views import AttemptView, EventView, Explanation, JobView, StepView
from webui import labels, times
from webui.command_response import actor_and_reason, respond, run_command
from webui.fields import EMPTY, Form
from webui.page_context import PageContext
from webui.policy import COMMANDS
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit, visit_or_none
from webui.views import archive

METHODS = {"run": "run_now"}
"""Where the command in the URL is not the name of the admin's method."""
DONE = {
    "retry": "Queued again, with its full number of attempts.",
    "run": "Queued to run now.",
    "pause": "Paused.",
    "resume": "Resumed.",
    "cancel": "Cancelled.",
    "delete": "Deleted.",
}
CONFIRM = {
    "retry": "It is queued now, with its full number of attempts again.",
    "run": "It is queued now and does not wait for its time.",
    "pause": "It will not run until somebody resumes it.",
    "resume": "It returns to the state in which it was paused.",
    "cancel": "It will not run. If its handler is running, it is told to stop, and its result is ignored.",
    "delete": "It leaves every list now and is purged later. What its attempts have done is not undone.",
}
"""What a command does; shown before it is confirmed."""
DEPENDENCIES = 20
"""Jobs before and after it that are shown."""
UNFOLDED = 3
"""Attempts up to which a timeline shows each event."""
_FAILED = (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT, AttemptStatus.LOST)
_COMMAND = "any(" + ", ".join(COMMANDS) + ")"


WIDTH = 300
"""Of the whole bar of a job's life."""
_GAP = 0.6
_LEAST = 0.4
_REST = 4.0
"""The width of a time in which the job was finished, however long: days of being dead would hide its runs."""


class Segment(NamedTuple):
    """How long a job was in one state, and where that is in the bar."""

    status: str
    x: float
    width: float
    seconds: float
    to_scale: bool = True
    """False for the time between its end and a retry or a delete, which has a width of its own."""


class Part(NamedTuple):
    """Events of a timeline that follow each other; shown, or folded under a label."""

    events: Sequence[EventView]
    label: str = ""


def show(ui: Ui, id: str, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: Form = EMPTY) -> Response:
    """Everything about a job on one page."""
    admin = ui.admin
    job = visible(ui, id)
    attempts = admin.attempts(id, cursor=_cursor("attempts"), page_size=50)
    events = admin.events(id, cursor=_cursor("events"), page_size=50)
    steps = admin.steps(id, cursor=_cursor("steps"), page_size=50)
    context = PageContext(ui, visit_or_none())
    explanation = admin.explain(id, write=times.sentence_writer(context.times), scope=visit().scope)
    return render(
        ui,
        "job.html",
        title=f"{job.name}, {job.status}",
        nav="jobs",
        live=True,
        status=status,
        flashes=flashes,
        job=job,
        commands=commands(job),
        form=form,
        patchable=job.status in PATCHABLE and visit().may("job.patch", id=job.id),
        labels=labels,
        cause=cause_id(job.name, job.error_type, job.error_frame) if job.status is Status.DEAD else None,
        explanation=explanation,
        start=worker_command(job.queue) if _wants_worker(job, explanation) else "",
        dependencies=admin.dependencies(id, scope=visit().scope, limit=DEPENDENCIES),
        failed_with=None if job.error_code in NO_ERRORS else job.error_code,
        attempts=attempts,
        failed=_with_errors(attempts.items),
        longest=max((_seconds(one, context.times.now) for one in attempts), default=0.0),
        events=events,
        timeline=timeline(events.items),
        segments=segments(events.items, None if events.next_cursor else context.times.now),
        steps=steps,
        awaited=waited_for(steps.items),
        signals=takes_signals(job),
        logs=admin.logs(id, cursor=_cursor("logs"), page_size=100),
    )


def _wants_worker(job: JobView, explanation: Explanation) -> bool:
    """Whether it could run now, and no worker takes jobs from its queue."""
    return job.status is Status.QUEUED and any(reason.code == "no_worker" for reason in explanation.reasons)


def open_one(ui: Ui, id: str, **shown: Any) -> Response:
    """The page of a job; of one that has left the main tables, the way to the archive."""
    try:
        return show(ui, id, **shown)
    except errors.UnknownJob:
        if not visit().may("archive.view"):
            raise
        archive.visible(ui, id)
        return Response(status=302, headers={"Location": url_for(".archived", id=id)})


def _seconds(attempt: AttemptView, now: datetime) -> float:
    if attempt.status is AttemptStatus.RUNNING:
        return max(0.0, (now - attempt.started_at).total_seconds())
    return attempt.duration or 0.0


def visible(ui: Ui, id: str) -> JobView:
    """The job, unless it is in a queue that the actor does not see."""
    job = ui.admin.get_job(id)
    if not visit().sees(job.queue):
        raise errors.UnknownJob(f"no job has the id {id!r}")
    return job


def commands(job: JobView) -> list[str]:
    """The commands that both the state machine and the policy allow now."""
    return [
        command
        for command in COMMANDS
        if METHODS.get(command, command) in job.actions and visit().may(f"job.{command}", id=job.id)
    ]


def _with_errors(attempts: tuple[AttemptView, ...]) -> list[tuple[AttemptView, bool]]:
    """Failed attempts, newest first; with each whether its text is that of the one shown before."""
    found: list[tuple[AttemptView, bool]] = []
    shown: str | None = None
    for one in reversed(attempts):
        text = one.traceback or one.error_message
        # A cancelled, snoozed or released attempt has a reason in that place, and no error.
        if text and one.status in _FAILED:
            found.append((one, text == shown))
            shown = text
    return found


def segments(events: Sequence[EventView], until: datetime | None) -> list[Segment]:
    """The bar of a job from its first event to ``until``, or to its last event for None.

    States that took no time are left out, and the time after the job's end.
    """
    if not events:
        return []
    ends = [*(event.created_at for event in events[1:]), until or events[-1].created_at]
    spans = [
        (event.to_status, (end - event.created_at).total_seconds()) for event, end in zip(events, ends, strict=True)
    ]
    if spans[-1][0] in FINISHED:
        spans.pop()
    spans = [(status, seconds) for status, seconds in spans if seconds > 0]
    moving = sum(seconds for status, seconds in spans if status not in FINISHED)
    if moving <= 0:
        return []
    scale = (WIDTH - _REST * sum(status in FINISHED for status, _ in spans)) / moving
    found, x = [], 0.0
    for status, seconds in spans:
        width = _REST if status in FINISHED else scale * seconds
        found.append(Segment(status.value, round(x, 2), max(_LEAST, width - _GAP), seconds, status not in FINISHED))
        x += width
    return found


def timeline(events: Sequence[EventView]) -> list[Part]:
    """The events; of many attempts only the first and the last as they are, and what somebody did between them."""
    starts = [place for place, event in enumerate(events) if event.event_type == "claimed"]
    if len(starts) <= UNFOLDED:
        return [Part(events)]
    begin, end = starts[1], starts[-1]
    runs = [list(run) for _, run in groupby(events[begin:end], key=lambda event: event.actor is not None)]
    return [Part(events[:begin]), *(Part(run, _label(run)) for run in runs), Part(events[end:])]


def _label(run: Sequence[EventView]) -> str:
    """``Attempts 2 to 4: 9 events``; nothing for events that say more than their number."""
    numbers = {event.attempt_number for event in run if event.attempt_number is not None}
    if len(numbers) < 2 or any(event.actor is not None for event in run):
        return ""
    return f"Attempts {min(numbers)} to {max(numbers)}: {len(run)} events"


def waited_for(steps: tuple[StepView, ...]) -> str | None:
    """The name of the signal that a job waits for."""
    return next((one.name for one in steps if one.kind == "signal" and one.state == "waiting"), None)


def takes_signals(shown: JobView) -> bool:
    """Whether a signal can be sent to the job, by this actor."""
    return shown.status not in FINISHED and visit().may("job.signal", id=shown.id)


def _cursor(name: str) -> str | None:
    return request.args.get(name) or None


def confirm(ui: Ui, id: str, command: str) -> Response:
    """Ask before a command; the page, or the same in a dialog."""
    job = visible(ui, id)
    return render(
        ui,
        "confirm-job.html",
        title=f"{labels.COMMAND_LABELS[command]}: {job.name}?",
        nav="jobs",
        job=job,
        command=command,
        labels=labels,
        effect=CONFIRM[command],
        possible=METHODS.get(command, command) in job.actions,
    )


def act(ui: Ui, id: str, command: str) -> Response:
    """Do it. A job that is there already is left as it is; a lost race is reported on the page."""
    if visit().scope is not None:
        visible(ui, id)

    def run() -> Flash:
        method: Any = getattr(ui.admin, METHODS.get(command, command))
        method(id, **actor_and_reason())
        return Flash("ok", DONE[command])

    flash, status = run_command(run)
    if request.form.get("from") == "dead":
        from webui.views import dead  # noqa: PLC0415 - the pages call each other

        return respond(ui, flash, status, "dead", dead.show)
    return respond(ui, flash, status, "job", show, id=id)


ROUTES = (
    Route("/jobs/<path:id>", "job", open_one, "job.view", query=("attempts", "events", "logs", "steps")),
    Route(f"/jobs/<path:id>/<{_COMMAND}:command>", "job_confirm", confirm, "job.{command}", also=("job.view",)),
    Route(f"/jobs/<path:id>/<{_COMMAND}:command>", "job_act", act, "job.{command}", "POST"),
)
