"""The page of one kind of job: its runs, its failures, where it comes from, and how it is defined."""

from __future__ import annotations

from flask import Response, request

from sloppyjobs.views import JobTypeSettings, JobTypeView
from webui import charts, hidden_details, percentile_charts, tiles, verdicts
from webui.rendering import render
from webui.routes import Route
from webui.spans import SPANS, span_named
from webui.times import duration
from webui.ui import Ui, visit

_DEFAULT_RANGE = "24h"
_RUNS_IN = {"thread": "a thread", "async": "the event loop", "process": "a process of its own"}


def show(ui: Ui, name: str) -> Response:
    """Everything about one kind of job."""
    span = span_named(request.args.get("range") or _DEFAULT_RANGE)
    view = hidden_details.job_type(ui.admin.get_job_type(name, minutes=span.minutes, scope=visit().scope))
    return render(
        ui,
        "job-type.html",
        title=f"{name}, job type",
        nav="jobs",
        live=True,
        view=view,
        span=span,
        spans=SPANS,
        chart=charts.throughput(view.stats, view.deploys),
        measured=percentile_charts.measured(view.sample, view.deploys),
        sampled=percentile_charts.sampled(view.sample),
        compared=compared(view),
        verdicts=verdicts.of_job_type(ui, view),
        longest=_longest(view),
        settings=None if view.settings is None else settings(view.settings),
    )


def compared(view: JobTypeView) -> str:
    """The attempts of the span, compared with those of the span before."""
    before = 0 if view.stats.previous is None else view.stats.previous.attempts
    return tiles.compared(view.stats.total.attempts - before)


def _longest(view: JobTypeView) -> float:
    """Where the bars of the slowest runs are full: at the timeout, but where all are far from it at the slowest."""
    timeout = None if view.settings is None else view.settings.timeout
    slowest = max((one.run_seconds for one in view.slowest), default=0.0) or 1.0
    return slowest if timeout is None or slowest < timeout / 4 else timeout


def settings(given: JobTypeSettings) -> list[tuple[str, str]]:
    """What a definition says, as terms and words."""
    shown = [
        ("Attempts", _attempts(given)),
        ("Timeout", "none" if given.timeout is None else duration(given.timeout)),
        ("Expires", "" if given.expires is None else f"{duration(given.expires)} after it is enqueued"),
        ("Runs in", _RUNS_IN.get(given.isolation, given.isolation) if given.handled else "another application"),
        ("Payload", f"version {given.version}"),
        ("Redacts", ", ".join(given.redact)),
        ("Resource", given.resource or ""),
        ("Tags", ", ".join(given.tags)),
    ]
    return [(term, words) for term, words in shown if words]


def _attempts(given: JobTypeSettings) -> str:
    if given.max_attempts == 1:
        return "1"
    if given.backoff == "none":
        return f"{given.max_attempts:,}, at once"
    if given.backoff == "callable":
        return f"{given.max_attempts:,}, after what a function says"
    waits = duration(given.backoff_initial)
    if given.backoff != "fixed":
        waits = f"{waits} to {duration(given.backoff_maximum)}"
    return f"{given.max_attempts:,}, {given.backoff} {waits}{', jitter' if given.jitter else ''}"


ROUTES = (Route("/job-types/<path:name>", "job_type", show, "job.view", query=("range",)),)
