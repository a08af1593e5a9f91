"""Queues: what waits in them, who works on them, pause and resume."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs import errors
from sloppyjobs.admin.attention import worker_command
from sloppyjobs.domain.ageing import rising
from sloppyjobs.views import Page, QueueView
from webui import charts, hidden_details, page_context, percentile_charts, until, verdicts
from webui.command_response import actor_and_reason, refuse, respond, run_command
from webui.fields import EMPTY, Form
from webui.page_context import PageContext
from webui.rendering import Flash, render
from webui.routes import Route
from webui.spans import SPANS, span_named
from webui.ui import Ui, visit, visit_or_none
from webui.views.activity import used_slots

PAUSES = {
    "": "Until resumed manually",
    "15": "For 15 minutes",
    "60": "For 1 hour",
    "240": "For 4 hours",
    "1440": "For 24 hours",
}
UNSERVED = 3
"""Queues without a worker that are listed in messages above the list."""


def show(
    ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: until.UntilForm | None = None
) -> Response:
    """Every queue ever seen."""
    chosen = page_context.preferences_of(ui)
    page = ui.admin.list_queues(cursor=request.args.get("cursor") or None, page_size=chosen.size, scope=visit().scope)
    if form is not None and form.target not in {queue.name for queue in page}:
        return show_one(ui, form.target, status=status, form=form)
    unserved = [queue for queue in page if queue.depth and not queue.workers and not queue.paused]
    return render(
        ui, "queues.html", title="Queues", nav="queues", live=True, status=status, flashes=flashes, page=page,
        summary=summary(page), unserved=unserved[:UNSERVED], more_unserved=unserved[UNSERVED:], command=worker_command,
        unhandled=_unhandled(ui), pauses=PAUSES, form=form, rate=rate,
    )  # fmt: skip


def _unhandled(ui: Ui) -> dict[str, list[str]]:
    """By queue, the names of queued jobs that none of its workers can run."""
    found: dict[str, list[str]] = {}
    for one in ui.admin.unhandled():
        found.setdefault(one.queue, []).append(one.name)
    return found


def show_one(
    ui: Ui, name: str, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: until.UntilForm | Form | None = None
) -> Response:
    """One queue, with who works on it and what it did lately."""
    queue = visible(ui, name)
    span, deploys = span_named(request.args.get("range")), ui.deploys()
    stats = ui.admin.stats(minutes=span.minutes, queue=name)
    page = ui.admin.list_jobs(queue=name, page_size=10, scope=visit().scope) if hidden_details.sees_jobs() else None
    workers = hidden_details.workers(Page(ui.admin.queue_workers(name))) if visit().may("worker.view") else ()
    return render(
        ui, "queue.html", title=f"{name} queue", nav="queues", live=True, status=status, flashes=flashes, queue=queue,
        span=span, spans=SPANS, stats=stats, chart=charts.throughput(stats, deploys), page=page, workers=workers,
        pauses=PAUSES, rate=rate, ageing=ageing_words(queue), verdicts=verdicts.of_queue(ui, name),
        form=form if isinstance(form, until.UntilForm) else None,
        ageing_form=form if isinstance(form, Form) else EMPTY, used_slots=used_slots,
    )  # fmt: skip


def runs(ui: Ui, name: str) -> Response:
    """How the latest runs of one queue went: a page of its own, for it reads all of them."""
    _check_visible(name)
    queue = ui.admin.get_queue(name)
    sample = ui.admin.queue_runs(name)
    return render(
        ui, "queue-runs.html", title=f"Run times of {name}", nav="queues", live=True, queue=queue, sample=sample,
        measured=percentile_charts.measured(sample, ui.deploys()), sampled=percentile_charts.sampled(sample),
    )  # fmt: skip


def summary(page: Page[QueueView]) -> str:
    """``8 queues, 6 queued, 2 running.``"""
    shown = " shown" if page.next_cursor or page.previous_cursor else ""
    queued, running = ([getattr(queue, name) for queue in page] for name in ("depth", "processing"))
    counts = [f"{sum(map(int, part)):,}{'+' if any(one.capped for one in part) else ''}" for part in (queued, running)]
    return f"{len(page)} queue{'s' if len(page) != 1 else ''}{shown}, {counts[0]} queued, {counts[1]} running."


def rate(value: float) -> str:
    """Jobs per minute, with one decimal, so that a column of them lines up."""
    return f"{value:,.1f}"


def ageing_words(queue: QueueView) -> str:
    """``Priorities rise by one every 60 s, by 10 at most.``"""
    words = "Priorities do not change while jobs wait."
    if queue.ageing_seconds is not None:
        words = f"Priorities {rising(queue.ageing_seconds, queue.ageing_most or 0)}."
    if queue.ageing_vanished:
        return f"{words} Their rise is no longer declared in code."
    if queue.ageing_declared:
        return f"{words} Code declares {'something else' if queue.ageing_changed else 'so'}."
    return words


def visible(ui: Ui, name: str) -> QueueView:
    """The queue; ``UnknownQueue`` also for those who do not see it."""
    _check_visible(name)
    return ui.admin.get_queue(name)


def _check_visible(name: str) -> None:
    if not visit().sees(name):
        raise errors.UnknownQueue(f"no queue is called {name!r}")


def pause(ui: Ui, name: str) -> Response:
    """Let nothing of this queue start, until a time or a resume; refused in place where the time makes no sense."""
    _check_visible(name)
    try:
        end = until.chosen(ui, PAUSES)
    except until.Refused as refused:
        return _refuse(ui, name, refused)

    def run() -> Flash:
        ui.admin.pause_queue(name, until=end, **actor_and_reason())
        ends = "until it is resumed" if end is None else f"until {PageContext(ui, visit_or_none()).times.full(end)}"
        return Flash("info", f"{name} paused {ends}.", "Running jobs will finish.")

    return _respond(ui, name, *run_command(run))


def resume(ui: Ui, name: str) -> Response:
    """Let the queue's jobs start again."""
    _check_visible(name)

    def run() -> Flash:
        ui.admin.resume_queue(name, **actor_and_reason())
        return Flash("ok", f"{name} resumed.")

    return _respond(ui, name, *run_command(run))


def _respond(ui: Ui, name: str, flash: Flash, status: int) -> Response:
    if request.form.get("from") == "queue":
        return respond(ui, flash, status, "queue", show_one, name=name)
    return respond(ui, flash, status, "queues", show)


def _refuse(ui: Ui, name: str, refused: until.Refused) -> Response:
    if request.form.get("from") == "queue":
        return refuse(ui, refused.error, refused.form(name), "queue", show_one, name=name)
    return refuse(ui, refused.error, refused.form(name), "queues", show)


ROUTES = (
    Route("/queues", "queues", show, "queue.view", query=("cursor",)),
    Route("/queue-runs/<path:name>", "queue_runs", runs, "queue.view"),
    Route("/queues/<path:name>", "queue", show_one, "queue.view", query=("range",)),
    Route("/queues/<path:name>/pause", "queue_pause", pause, "queue.pause", "POST"),
    Route("/queues/<path:name>/resume", "queue_resume", resume, "queue.resume", "POST"),
)
