"""The page of one cause of death: what the last canary did and what to do next, its trend, a traceback, its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Response, request, url_for

from sloppyjobs.admin.dead_groups import HIGHEST_RATE
from sloppyjobs.domain.causes import DIED_AGAIN
from sloppyjobs.views import CauseView, DeployView, RetryRun
from webui import charts, deploy_marks, numbers
from webui.command_response import actor_and_reason, respond, run_command
from webui.labels import COMMAND_ICONS
from webui.numbers import Refused
from webui.rendering import Flash, flash_later, is_htmx, render
from webui.routes import Route
from webui.times import rough
from webui.ui import Ui, visit
from webui.views import dead

JOBS = 50
RATE = 60
"""Jobs per minute, unless something else is asked for."""
SELECTION_COMMANDS = ("retry", "delete")
"""What can be done to a selection."""
_CAUSE = "<string(length=20):cause>"


class Incident(NamedTuple):
    """What the last retry came to: the colour of its panel, what to do next, and whether that is to retry the rest."""

    tone: str
    advice: str
    offers_rest: bool = False


class Trend(NamedTuple):
    """The deaths per hour as a chart, and by six hours as a table."""

    lane: charts.Lane
    axis: tuple[Any, ...]
    table: tuple[tuple[Any, int], ...]
    marks: deploy_marks.Marks


def show(
    ui: Ui,
    cause: str,
    *,
    flashes: tuple[Flash, ...] = (),
    status: int = 200,
    refused: Refused | None = None,
) -> Response:
    """Everything about a cause on one page."""
    view = ui.admin.get_cause(cause, scope=visit().scope, jobs=JOBS)
    latest = _latest(view)
    return render(
        ui,
        "cause.html",
        title=f"{view.title}, {view.dead} dead",
        nav="dead",
        live=True,
        status=status,
        flashes=flashes,
        view=view,
        latest=latest,
        incident=None if latest is None else incident(latest, view),
        open=not (latest is not None and latest.outcome == "running"),
        trend=_trend(view, ui.deploys()),
        fields=cause_fields(view),
        bulk=[command for command in SELECTION_COMMANDS if visit().may(f"bulk.{command}")],
        refused=refused,
        few=min(dead.FEW, view.dead.value),
        most=_most(view),
        rate=RATE,
        about=about,
        died_again=DIED_AGAIN,
        icons=COMMAND_ICONS,
    )


def _latest(view: CauseView) -> RetryRun | None:
    """The retry that is shown: the last that began, or one of the rest that still runs."""
    if view.rest is not None and view.rest.state == "running":
        return view.rest
    runs = [run for run in (view.canary, view.rest) if run is not None]
    return max(runs, key=lambda run: run.created_at, default=None)


def incident(run: RetryRun, view: CauseView) -> Incident:
    """The verdict on a retry, and the next step."""
    left = view.dead.value > 0
    if run.outcome == "running":
        return Incident("processing" if run.kind == "rest" else "retrying", _wait(run))
    if run.outcome == "died":
        return Incident("dead", "Don’t continue. Fix the cause, deploy, then try another canary.")  # noqa: RUF001
    if run.state == "stopped":
        return Incident("paused", "The other jobs were left as they are.")
    if run.outcome == "succeeded":
        if not left:
            return Incident("succeeded", "The cause looks fixed, and no job of it is left to retry.")
        if run.kind == "canary":
            return Incident("succeeded", "The cause looks fixed. Retry the rest.", offers_rest=True)
        return Incident("succeeded", "Those below died after it began.")
    return Incident("paused", "No job of it has finished. Try another canary.")


def _wait(run: RetryRun) -> str:
    if run.kind == "rest":
        return "It stops by itself when 3 in a row die again."
    return "Wait for the last one." if run.unfinished == 1 else f"Wait for the last {run.unfinished}."


def about(jobs: int, rate: float) -> str:
    """How long so many jobs take at a rate per minute: ``About 4 min``."""
    seconds = jobs / rate * 60
    return f"About {rough(seconds)}" if seconds >= 1 else "Less than a second"


def _trend(view: CauseView, deploys: Sequence[DeployView]) -> Trend:
    starts = [one.start for one in view.trend]
    counts = [one.deaths for one in view.trend]
    rows = tuple((starts[place], sum(counts[place : place + 6])) for place in range(0, len(starts), 6))
    placed = deploy_marks.marks(deploys, starts[0], 3_600 * len(starts)) if starts else deploy_marks.Marks()
    return Trend(charts.lane(starts, counts), tuple(starts[::12]), rows, placed)


def cause_fields(view: CauseView) -> dict[str, str]:
    """What the bulk commands call this cause."""
    parts = {"error_type": view.error_type, "error_frame": view.error_frame, "name": view.name}
    return {"cause": "1", "from": "cause", **{name: value for name, value in parts.items() if value}}


def _most(view: CauseView) -> int:
    return min(dead.MOST_CANARIES, view.dead.value)


# Commands


def canary(ui: Ui, cause: str) -> Response:
    """Retry a few, and show what comes of it; anything but a number of jobs that are dead is refused in place."""
    from_dead = request.form.get("from") == "dead"
    view = ui.admin.get_cause(cause, scope=visit().scope, jobs=1)
    typed = request.form.get("count", "")
    count = numbers.whole(typed, max(1, _most(view)))
    if count is None:
        refused = numbers.refusal(cause, "count", typed, max(1, _most(view)))
        return _refused(ui, cause, refused, from_dead=from_dead)

    def run() -> Flash:
        done = ui.admin.retry_canary(cause, count, scope=visit().scope, **actor_and_reason())
        return Flash("info", f"{done.retried:,} retried.", "The result is shown here.")

    flash, status = run_command(run)
    if from_dead and is_htmx() and _opens(ui, "cause"):
        # The cause may have gone from the list with its last job; its own page stays.
        ui.snapshots.clear()
        flash_later(ui, flash)
        return Response(status=200, headers={"HX-Redirect": url_for(".cause", cause=cause)})
    return respond(ui, flash, status, "cause", show, cause=cause)


def _refused(ui: Ui, cause: str, refused: Refused, *, from_dead: bool) -> Response:
    if not _opens(ui, "dead" if from_dead else "cause"):
        return _nothing_done(ui, refused)
    if from_dead:
        return ui.admin.snapshot(lambda: dead.show(ui, status=422, refused=refused))
    return ui.admin.snapshot(lambda: show(ui, cause, status=422, refused=refused))


def _opens(ui: Ui, endpoint: str) -> bool:
    return visit().lacks(ui.routes[endpoint], {}) is None


def _nothing_done(ui: Ui, refused: Refused) -> Response:
    """For who may command but not see the page: that nothing was done, and no more."""
    flash = Flash("bad", "Nothing was retried.", refused.text)
    return render(ui, "done.html", title=flash.title, status=422, done=flash)


def ask_rest(ui: Ui, cause: str, *, status: int = 200) -> Response:
    """Ask before the rest is retried: how many, at which rate, and how long that takes."""
    view = ui.admin.get_cause(cause, scope=visit().scope, jobs=1)
    typed = request.values.get("rate", str(RATE))
    rate = numbers.whole(typed, HIGHEST_RATE)
    refused = numbers.refusal(cause, "rate", typed, HIGHEST_RATE) if rate is None else None
    return render(ui, "confirm-rest.html", title="Retry the rest", nav="dead", status=status, view=view, typed=typed,
                  rate=rate, refused=refused, about=about, highest=HIGHEST_RATE)  # fmt: skip


def rest(ui: Ui, cause: str) -> Response:
    """Let the workers retry the rest at a rate."""
    rate = numbers.whole(request.form.get("rate", ""), HIGHEST_RATE)
    if rate is None and not _opens(ui, "cause_rest_confirm"):
        return _nothing_done(ui, numbers.refusal(cause, "rate", "", HIGHEST_RATE))
    if rate is None:
        return ui.admin.snapshot(lambda: ask_rest(ui, cause, status=422))
    if visit().scope is not None:
        ui.admin.get_cause(cause, scope=visit().scope, jobs=1)

    def run() -> Flash:
        begun = ui.admin.retry_rest(cause, rate, scope=visit().scope, **actor_and_reason())
        return Flash("info", f"Retrying {begun.wanted:,}, {rate:,} per minute.", "The result is shown here.")

    flash, status = run_command(run)
    return respond(ui, flash, status, "cause", show, cause=cause)


def stop(ui: Ui, cause: str) -> Response:
    """Stop a retry of the rest."""
    ui.admin.stop_retry_run(request.form.get("run", ""), scope=visit().scope, **actor_and_reason())
    return respond(ui, Flash("ok", "Stopped.", "Jobs that were retried stay so."), 200, "cause", show, cause=cause)


ROUTES = (
    Route(f"/dead/{_CAUSE}", "cause", show, "dead.view", also=("job.view",)),
    Route(f"/dead/{_CAUSE}/canary", "cause_canary", canary, "bulk.retry", "POST"),
    Route(f"/dead/{_CAUSE}/rest", "cause_rest_confirm", ask_rest, "bulk.retry", also=("job.view",), query=("rate",)),
    Route(f"/dead/{_CAUSE}/rest", "cause_rest", rest, "bulk.retry", "POST"),
    Route(f"/dead/{_CAUSE}/stop", "cause_stop", stop, "bulk.retry", "POST"),
)
