"""Batches: how far they are, what is dead in them, what they call for; seal, cancel and retry."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response, request
from werkzeug.exceptions import NotFound

from sloppyjobs.domain.batches import BatchStatus
from sloppyjobs.views import BatchView, Page
from webui import hidden_details, page_context
from webui.command_response import actor_and_reason, respond, run_command
from webui.labels import counted
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

DEAD = 20
"""Dead jobs that a batch's page lists."""
LOOKS = {
    BatchStatus.OPEN: ("waiting", "Open"),
    BatchStatus.RUNNING: ("processing", "Running"),
    BatchStatus.SUCCEEDED: ("succeeded", "Succeeded"),
    BatchStatus.FAILED: ("failed", "Failed"),
    BatchStatus.CANCELLED: ("cancelled", "Cancelled"),
}
"""The class, which is also the icon, and the word of each status."""
_VERBS = "any(seal, cancel, retry)"
_NARROWEST = 0.6
"""Percent that even one job takes in the bar."""


class Part(NamedTuple):
    """A part of a batch's bar: its class, its words, where it begins and how wide it is, in percent."""

    kind: str
    number: int
    text: str
    start: float
    width: float
    status: str | None
    """The status by which its jobs are listed."""


def parts(batch: BatchView) -> list[Part]:
    """The bar of a batch, from what went well to what is left."""
    counts = (
        ("succeeded", batch.succeeded, "succeeded", "succeeded"),
        ("dead", batch.dead, "dead", "dead"),
        ("cancelled", batch.cancelled, "cancelled", "cancelled"),
        ("queued", batch.outstanding, "to go", None),
    )
    found: list[Part] = []
    start = 0.0
    for kind, number, words, status in counts:
        if number > 0:
            width = max(_NARROWEST, 100 * number / max(1, batch.total))
            width = min(width, 100 - start)
            found.append(Part(kind, number, f"{number:,} {words}", start, width, status))
            start += width
    return found


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """Batches, latest first; of one status where it is asked for."""
    chosen = page_context.preferences_of(ui)
    wanted = request.args.get("status") or None
    if wanted not in (None, *(one.value for one in BatchStatus)):
        raise NotFound
    page: Page[BatchView] = ui.admin.list_batches(
        wanted, cursor=request.args.get("cursor") or None, page_size=chosen.size, scope=visit().scope
    )
    return render(
        ui, "batches.html", title="Batches", nav="batches", live=True, status=status, flashes=flashes, page=page,
        wanted=wanted, statuses=tuple(BatchStatus), looks=LOOKS, parts=parts,
    )  # fmt: skip


def show_one(ui: Ui, id: str, *, flashes: tuple[Flash, ...] = (), status: int = 200) -> Response:
    """One batch."""
    batch = ui.admin.get_batch(id, scope=visit().scope)
    sees = hidden_details.sees_jobs()
    dead = Page(ui.admin.dead_in_batch(id, limit=DEAD, scope=visit().scope)) if sees and batch.dead else None
    gone = dead is not None and not dead.items
    return render(
        ui, "batch.html", title=f"{batch.name}, batch", nav="batches", live=True, status=status, flashes=flashes,
        batch=batch, page=dead, looks=LOOKS, parts=parts(batch), sees=sees, gone=gone,
    )  # fmt: skip


def confirm(ui: Ui, id: str, command: str) -> Response:
    """Ask first."""
    batch = ui.admin.get_batch(id, scope=visit().scope)
    return render(
        ui, "confirm-batch.html", title=f"{command.capitalize()} a batch", nav="batches", batch=batch, command=command
    )


def act(ui: Ui, id: str, command: str) -> Response:
    """Do it; what cannot be done any more is said on the page."""
    scope, admin = visit().scope, ui.admin

    def run() -> Flash:
        by = actor_and_reason()
        if command == "seal":
            batch = admin.seal_batch(id, **by, scope=scope)
            return Flash("ok", f"{batch.name} sealed.", "It ends when all its jobs have.")
        if command == "cancel":
            batch = admin.cancel_batch(id, **by, scope=scope)
            left = f"Workers cancel the other {counted(batch.outstanding, 'job')}." if batch.outstanding else ""
            return Flash("info", f"{batch.name} cancelled.", left)
        batch = admin.retry_batch(id, **by, scope=scope)
        return Flash("ok", f"Dead jobs of {batch.name} retried.", "It is running again until they have ended.")

    flash, status = run_command(run)
    return respond(ui, flash, status, "batch", show_one, id=id)


ROUTES = (
    Route("/batches", "batches", show, "batch.view", query=("status", "cursor")),
    Route("/batches/<path:id>", "batch", show_one, "batch.view"),
    Route(f"/batches/<path:id>/<{_VERBS}:command>", "batch_confirm", confirm, "batch.{command}", also=("batch.view",)),
    Route(f"/batches/<path:id>/<{_VERBS}:command>", "batch_act", act, "batch.{command}", "POST"),
)
