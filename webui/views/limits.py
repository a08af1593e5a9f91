"""Limits: what resources allow, who holds their permits, who waits; and changes."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from sloppyjobs import errors
from sloppyjobs.domain.limit_words import limit_words, rate_of
from sloppyjobs.views import FullPartition, JobView, LimitView
from webui import audit_words, fields, filters, page_context
from webui.command_response import actor_and_reason, refuse, respond, run_command
from webui.fields import EMPTY, REFUSED, Form
from webui.rendering import Flash, render
from webui.routes import Route
from webui.ui import Ui, visit

FULL = 5
"""Lines that the page of all limits names."""
SPANS = {"1": "second", "60": "minute", "3600": "hour", "86400": "day"}


def show(ui: Ui, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: Form = EMPTY) -> Response:
    """Every limit, with how much of it is in use."""
    chosen = page_context.preferences_of(ui)
    page = ui.admin.list_limits(cursor=request.args.get("cursor") or None, page_size=chosen.size)
    waiting = sum(int(limit.waiting) for limit in page)
    more = any(limit.waiting.capped for limit in page)
    full = ui.admin.full_partitions([limit.name for limit in page if limit.waiting])
    fullest = ui.admin.fullest_partitions([limit.name for limit in page if limit.concurrency and limit.held])
    first = {one.resource: one.next_since for one in reversed(full)}
    return render(
        ui, "limits.html", title="Limits", nav="limits", live=True, status=status, flashes=flashes, page=page,
        waiting=f"{waiting:,}{'+' if more else ''}", state=_state, rate_of=rate_of, form=form,
        spans=SPANS, full=full[:FULL], first=first, why_full=_why_full,
        fullest=fullest,
    )  # fmt: skip


def show_one(ui: Ui, name: str, *, flashes: tuple[Flash, ...] = (), status: int = 200, form: Form = EMPTY) -> Response:
    """One limit: its partitions, who holds its permits, and the form to change it."""
    details = ui.admin.limit_details(name, scope=visit().scope)
    limit = details.limit
    changes = ui.admin.audit(limit.name, page_size=5).items if visit().may("audit.view") else ()
    return render(
        ui, "limit.html", title=f"{limit.name}, limit", nav="limits", live=True, status=status, flashes=flashes,
        limit=limit, details=details, words=limit_words(limit.concurrency, limit.rate, limit.per),
        state=_state(limit), form=form, spans=_spans(limit), per=_per(limit), changes=changes,
        limit_changes=audit_words.limit_changes,
        waits=any(one.waiting for one in details.partitions),
    )  # fmt: skip


def _why_full(one: FullPartition) -> str:
    """What the first in line waits for."""
    if one.concurrency is not None and one.held >= one.concurrency:
        if one.concurrency == one.held == 1:
            return "Its only permit is in use; it comes back when its job ends."
        if one.held > one.concurrency:
            return f"{one.held:,} permits are in use, and the limit is {one.concurrency:,} by now."
        return f"{one.held:,} of {one.concurrency:,} permits are in use; one comes back when its job ends."
    if one.tokens == 0:
        return "Its rate is used up; the next one starts when the rate allows it."
    return "There is room: the next one starts within a second."


def _state(limit: LimitView) -> str:
    if limit.vanished:
        return "no longer declared in code: it limits nothing"
    if limit.changed:
        return "declared in code, changed by an operator"
    return "declared in code" if limit.declared else "set by an operator"


def _per(limit: LimitView) -> str:
    return "60" if limit.per is None else f"{limit.per:g}"


def _spans(limit: LimitView) -> dict[str, str]:
    own = _per(limit)
    return SPANS if own in SPANS else {**SPANS, own: f"{own} s"}


def change(ui: Ui, name: str) -> Response:
    """Change a limit; refused in place where a number makes no sense."""
    values, wrong = _typed()
    if wrong:
        return _refuse(ui, name, wrong)

    def run() -> Flash:
        limit = ui.admin.set_limit(name, **values, **actor_and_reason())
        words = limit_words(limit.concurrency, limit.rate, limit.per)
        return Flash("ok", f"{name}: {words}.", "Running jobs go on.")

    try:
        flash, status = run_command(run)
    except errors.InvalidOption as error:
        return _refuse(ui, name, {error.field or "concurrency": filters.sentence(error)})
    return respond(ui, flash, status, "limit", show_one, name=name)


def create(ui: Ui) -> Response:
    """Write a limit for a resource that has none."""
    name = request.form.get("name", "").strip()
    values, wrong = _typed()
    if not name:
        wrong["name"] = "Write the resource that jobs name."
    if not wrong and values["concurrency"] is None and values["rate"] is None:
        wrong["concurrency"] = "Write how many jobs may run at once, or a rate below."

    def run() -> Flash:
        limit = ui.admin.set_limit(name, **values, create=True, **actor_and_reason())
        return Flash("ok", f"{name} is limited: {limit_words(limit.concurrency, limit.rate, limit.per)}.")

    try:
        if not wrong:
            flash, status = run_command(run)
            return respond(ui, flash, status, "limits", show)
    except errors.InvalidOption as error:
        wrong[error.field or "name"] = filters.sentence(error)
    return ui.admin.snapshot(lambda: show(ui, status=REFUSED, form=fields.refused(**wrong)))


def _typed() -> tuple[dict[str, Any], dict[str, str]]:
    """What the form asks for, and what is wrong with it."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in ("concurrency", "rate"):
        text = request.form.get(field, "").strip().replace(",", "")
        values[field] = None
        if text:
            try:
                values[field] = int(text)
            except ValueError:
                wrong[field] = "Write a number, such as 100."
            else:
                if values[field] < 1:
                    wrong[field] = "Write 1 or more, or nothing for no limit."
    try:
        values["per"] = None if values["rate"] is None else float(request.form.get("per", "60"))
    except ValueError:
        wrong["per"] = "Choose a span from the list."
    return values, wrong


def _refuse(ui: Ui, name: str, wrong: dict[str, str]) -> Response:
    return refuse(ui, next(iter(wrong.values())), fields.refused(**wrong), "limit", show_one, name=name)


def confirm_delete(ui: Ui, name: str) -> Response:
    """Ask before a limit is removed."""
    limit = ui.admin.get_limit(name)
    words = limit_words(limit.concurrency, limit.rate, limit.per)
    return render(ui, "confirm-limit.html", title=f"Delete {name}?", nav="limits", limit=limit, words=words, job=None)


def delete(ui: Ui, name: str) -> Response:
    """Remove a limit; whoever waits goes on."""

    def run() -> Flash:
        ui.admin.delete_limit(name, **actor_and_reason())
        return Flash("ok", f"{name} is not limited any more.", "Jobs that waited for its permits go on.")

    return respond(ui, *run_command(run), "limits", show)


def confirm_release(ui: Ui, name: str, id: str) -> Response:
    """Ask before a permit is taken away from a job that may still run."""
    limit, job = ui.admin.get_limit(name), _job(ui, id)
    return render(ui, "confirm-limit.html", title="Release the permit?", nav="limits", limit=limit, words="", job=job)


def release(ui: Ui, name: str, id: str) -> Response:
    """Take a permit away from a job, and give it to the next in line."""
    _job(ui, id)

    def run() -> Flash:
        try:
            ui.admin.release_permit(id, **actor_and_reason())
        except errors.PermitNotHeld:
            return Flash("info", "The permit came back already.")
        return Flash("ok", "The permit is released.", "The job may still run; the next in line starts.")

    return respond(ui, *run_command(run), "limit", show_one, name=name)


def _job(ui: Ui, id: str) -> JobView:
    job = ui.admin.get_job(id)
    if not visit().sees(job.queue):
        raise errors.UnknownJob(f"no job has the id {id!r}")
    return job


ROUTES = (
    Route("/limits", "limits", show, "limit.view", query=("cursor",)),
    Route("/limits", "limit_create", create, "limit.set", "POST"),
    Route("/limits/<path:name>/delete", "limit_confirm", confirm_delete, "limit.delete", also=("limit.view",)),
    Route("/limits/<path:name>/delete", "limit_delete", delete, "limit.delete", "POST"),
    Route("/limits/<path:name>/release/<id>", "permit_confirm", confirm_release, "limit.release", also=("limit.view",)),
    Route("/limits/<path:name>/release/<id>", "permit_release", release, "limit.release", "POST"),
    Route("/limits/<path:name>", "limit", show_one, "limit.view"),
    Route("/limits/<path:name>", "limit_set", change, "limit.set", "POST"),
)
