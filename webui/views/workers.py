"""One worker: what it runs, what it says of itself; quiet it, resume it, stop it."""

from __future__ import annotations

from flask import Response

from sloppyjobs.views import JobRow, WorkerView
from webui import hidden_details
from webui.command_response import actor_and_reason, respond, run_command
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit
from webui.views.activity import LIVENESS, used_slots

RUNNING = 50
"""Running jobs that the page lists."""
_VERBS = "any(quiet, resume, stop)"
_ONE = "/workers/<path:id>"


def show_one(ui: Ui, id: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One worker with what it runs now, longest first."""
    worker = visible(ui, id)
    return render(
        ui, "worker.html", title=f"{worker.hostname}:{worker.pid}, worker", nav="workers", live=True, status=status,
        flashes=flashes, worker=worker, running=_running(ui, worker), states=LIVENESS, share=failed_share(worker),
        memory=memory_words(worker.memory), pace=pace(worker),
        used_slots=used_slots,
        commands=[verb for verb in worker.actions if visit().may(f"worker.{verb}", id=worker.id)],
    )  # fmt: skip


def confirm(ui: Ui, id: str, command: str) -> Response:
    """Ask first."""
    title = f"{command.capitalize()} a worker"
    return render(ui, "confirm-worker.html", title=title, nav="workers", worker=visible(ui, id), command=command)


def act(ui: Ui, id: str, command: str) -> Response:
    """Do it; what cannot be done any more is said on the page."""

    def run() -> Flash:
        by = actor_and_reason()
        if command == "quiet":
            worker = ui.admin.quiet_worker(id, **by)
            return Flash("info", f"{name_of(worker)} takes no new jobs {soon(worker)}.", "Running jobs will finish.")
        if command == "resume":
            worker = ui.admin.resume_worker(id, **by)
            return Flash("ok", f"{name_of(worker)} takes jobs again {soon(worker)}.")
        worker = ui.admin.stop_worker(id, **by)
        return Flash("info", f"{name_of(worker)} begins to stop {soon(worker)}.", "Running jobs will finish.")

    flash, status = run_command(run)
    return respond(ui, flash, status, "worker", show_one, id=id)


def visible(ui: Ui, id: str) -> WorkerView:
    """The worker, without what the viewer may not see of it."""
    return hidden_details.worker(ui.admin.get_worker(id, queues=visit().scope))


def name_of(worker: WorkerView) -> str:
    """``app-1:4126``."""
    return f"{worker.hostname}:{worker.pid}"


def soon(worker: WorkerView) -> str:
    """When it learns of a command."""
    return f"within {worker.heartbeat_seconds:g} s"


def failed_share(worker: WorkerView) -> str:
    """Of all attempts, those that failed: ``0.8 %``; empty where none has ended."""
    failed, done = worker.failed or 0, worker.done or 0
    return f"{100 * failed / (failed + done):.1f} %" if failed else ""


def pace(worker: WorkerView) -> str:
    """Attempts that ended per minute since it started: ``12.4 per min``; empty in its first minute."""
    minutes = (worker.heartbeat_at - worker.started_at).total_seconds() / 60
    ended = (worker.done or 0) + (worker.failed or 0)
    return f"{ended / minutes:,.1f} per min" if ended and minutes >= 1 else ""


def memory_words(size: int | None) -> str:
    """``412 MB``."""
    if size is None:
        return "not known"
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _running(ui: Ui, worker: WorkerView) -> list[JobRow]:
    if not hidden_details.sees_jobs():
        return []
    found = ui.admin.list_jobs("processing", worker=worker.id, page_size=RUNNING, scope=visit().scope)
    return sorted(found, key=lambda job: (job.started_at or job.updated_at, job.id))


ROUTES = (
    Route(_ONE, "worker", show_one, "worker.view"),
    Route(f"{_ONE}/<{_VERBS}:command>", "worker_confirm", confirm, "worker.{command}", also=("worker.view",)),
    Route(f"{_ONE}/<{_VERBS}:command>", "worker_act", act, "worker.{command}", "POST"),
)
