"""Workflows: how they stand, the graph of one, cancel and retry."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from flask import Response, request

from sloppyjobs import errors
from sloppyjobs.domain.states import Status
from sloppyjobs.domain.workflows import WorkflowStatus
from sloppyjobs.views import Explanation, Page, WorkflowJobView, WorkflowView
from webui import filters, page_context, times, workflow_graph
from webui.command_response import actor_and_reason, respond, run_command
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

RANGES = {"1": "Last hour", "24": "Last 24 hours", "168": "Last 7 days"}
"""Hours."""
LOOKS: Mapping[str, str] = {"running": "processing", "blocked": "dead"}
"""The status of jobs that a status of workflows looks like."""
STARTABLE = (Status.QUEUED, Status.RETRYING, Status.PAUSED, Status.SCHEDULED, Status.WAITING)
"""Which job of a workflow is asked why it does not run: one of the first of these that there is."""
TIMED = (Status.SCHEDULED.value, Status.RETRYING.value)
"""Which of them start by themselves when their time comes; the others may wait for somebody."""
FIELDS = ("status", "name", "correlation_id", "range")
COMMANDS = ("cancel", "retry")
DONE = {"cancel": "cancelled", "retry": "retried"}
_COMMAND = "any(cancel, retry)"
_SEES = ("job.view",)


class Segment(NamedTuple):
    """A part of a bar: the jobs of one status."""

    status: str
    number: int
    x: float
    width: float


def segments(counts: Mapping[str, int]) -> list[Segment]:
    """The parts of a bar, in the order of a job's life."""
    order = ("succeeded", "dead", "cancelled", "deleted", "processing", "failed", "retrying", "queued")
    known = [*order, *(status.value for status in Status if status.value not in order)]
    total = sum(counts.values())
    made: list[Segment] = []
    x = 0.0
    for status in known:
        number = counts.get(status, 0)
        if number:
            made.append(Segment(status, number, x, 100 * number / total))
            x += 100 * number / total
    return made


def in_words(counts: Mapping[str, int]) -> str:
    """``10 succeeded, 1 dead, 3 waiting``."""
    return ", ".join(f"{one.number:,} {one.status}" for one in segments(counts)) or "no jobs"


def held_in_words(counts: Mapping[str, int]) -> str:
    """``1 scheduled, 2 paused``: what a workflow waits for, as far as the statuses of its jobs tell."""
    held = {status: counts[status] for status in (*TIMED, Status.PAUSED.value) if counts.get(status)}
    return in_words(held) if held else ""


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Workflows, open ones first; narrowed by what was typed."""
    chosen = page_context.preferences_of(ui)
    given = {name: request.args.get(name, "").strip() for name in FIELDS}
    wrong: dict[str, str] = {}
    page: Page[WorkflowView] = Page(())
    try:
        page = ui.admin.list_workflows(
            **_wanted(given), cursor=request.args.get("cursor") or None, page_size=chosen.size, scope=visit().scope
        )
    except errors.InvalidOption as error:
        if error.field not in given:
            raise
        wrong[error.field] = filters.sentence(error)
    return render(
        ui, "workflows.html", title="Workflows", nav="workflows", live=True, status=422 if wrong else status,
        flashes=flashes, page=page, given=given, wrong=wrong, ranges=RANGES, statuses=tuple(WorkflowStatus),
        looks=LOOKS, segments=segments, in_words=in_words, held_in_words=held_in_words, narrowed=any(given.values()),
    )  # fmt: skip


def _wanted(given: Mapping[str, str]) -> dict[str, Any]:
    hours = given["range"]
    since = datetime.now(UTC) - timedelta(hours=int(hours)) if hours in RANGES else None
    return {
        "status": given["status"] or None,
        "name": given["name"] or None,
        "correlation_id": given["correlation_id"] or None,
        # Whole minutes, so that a cursor fits the page that it was made for.
        "created_from": None if since is None else since.replace(second=0, microsecond=0),
    }


def show_one(ui: Ui, id: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One workflow: why it is not finished, its graph, its jobs."""
    chosen = page_context.preferences_of(ui)
    scope = visit().scope
    found = ui.admin.get_workflow(id, scope=scope)
    graph = ui.admin.workflow_graph(id, scope=scope)
    apart = request.args.get("draw") == "all"
    drawing = None if graph.more else workflow_graph.draw(graph.jobs, apart=apart)
    wanted = request.args.get("status", "")
    jobs = ui.admin.workflow_jobs(
        id,
        wanted if wanted in set(Status) else None,
        cursor=request.args.get("cursor") or None,
        page_size=chosen.size,
        scope=scope,
    )
    return render(
        ui, "workflow.html", title=found.name, nav="workflows", live=True, status=status, flashes=flashes,
        flow=found, graph=graph, drawing=drawing, zoom=_zoom(), zooms=workflow_graph.ZOOMS, apart=apart, jobs=jobs,
        blockers=ui.admin.workflow_blockers(id, scope=scope), looks=LOOKS, segments=segments, in_words=in_words,
        commands=_commands(found), box=workflow_graph, held_up=_held_up(ui, found), timed=TIMED,
    )  # fmt: skip


def _held_up(ui: Ui, found: WorkflowView) -> tuple[WorkflowJobView, Explanation] | None:
    """Where nothing of it runs: a job that could, and why it does not. What is dead is told as a blocker."""
    if found.ended or found.status == WorkflowStatus.BLOCKED or found.counts.get(Status.PROCESSING):
        return None
    scope, write = visit().scope, times.sentence_writer(page_context.PageContext(ui, visit()).times)
    for status in filter(found.counts.get, STARTABLE):
        for job in ui.admin.workflow_jobs(found.id, status, page_size=1, scope=scope):
            if job.id is not None:
                return job, ui.admin.explain(job.id, write=write, scope=scope)
    return None


def _zoom() -> int:
    given = request.args.get("zoom", "")
    return int(given) if given in map(str, workflow_graph.ZOOMS) else 100


def _commands(found: WorkflowView) -> list[str]:
    """The commands that would do something, and that the policy allows."""
    return [verb for verb in COMMANDS if verb in found.actions and visit().may(f"workflow.{verb}", id=found.id)]


def confirm(ui: Ui, id: str, command: str) -> Response:
    """Ask before all jobs of a workflow are commanded."""
    found = ui.admin.get_workflow(id, scope=visit().scope)
    return render(
        ui, "confirm-workflow.html", title=f"{command.capitalize()} {found.name}?", nav="workflows", flow=found,
        command=command, possible=command in found.actions, looks=LOOKS, in_words=in_words,
    )  # fmt: skip


def act(ui: Ui, id: str, command: str) -> Response:
    """Do it; what could not be done is said with its reasons."""

    def run() -> Flash:
        method: Any = getattr(ui.admin, f"{command}_workflow")
        done = method(id, scope=visit().scope, **actor_and_reason())
        text = f"{done.done:,} job{'' if done.done == 1 else 's'} {DONE[command]}."
        skipped = "; ".join(f"{number:,} left alone: {reason}" for reason, number in done.skipped.items())
        if not done.done:
            return Flash("warn", f"Nothing to {command}.", skipped or "No job of it is in such a state any more.")
        return Flash("ok", text, f"{skipped}." if skipped else "")

    flash, status = run_command(run)
    return respond(ui, flash, status, "workflow", show_one, id=id)


ROUTES = (
    Route("/workflows", "workflows", show, "workflow.view", also=_SEES, query=(*FIELDS, "cursor")),
    Route("/workflows/<path:id>", "workflow", show_one, "workflow.view", also=_SEES,
          query=("zoom", "draw", "status", "cursor")),
    Route(f"/workflows/<path:id>/<{_COMMAND}:command>", "workflow_confirm", confirm, "workflow.{command}",
          also=("workflow.view", *_SEES)),
    Route(f"/workflows/<path:id>/<{_COMMAND}:command>", "workflow_act", act, "workflow.{command}", "POST"),
)  # fmt: skip
