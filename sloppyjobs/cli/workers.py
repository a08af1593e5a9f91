"""``workers``: which there are, what each runs, and what can be asked of it."""

from __future__ import annotations

from datetime import datetime

import click
from rich.console import Console

from sloppyjobs.cli import output
from sloppyjobs.cli.paging import listing_group
from sloppyjobs.cli.params import as_json, signed
from sloppyjobs.cli.target import Target, as_typed, pass_target
from sloppyjobs.views import Page, WorkerView


def _render_workers(out: Console, page: Page[WorkerView], now: datetime) -> None:
    if output.nothing(out, page.items, as_typed("workers; start one with `sloppyjobs --app module:jobs worker`")):
        return
    made = output.table(
        "WORKER",
        "STATE",
        "HOST",
        "QUEUES",
        "JOBS",
        "HEARTBEAT",
        whole=("WORKER", "STATE", "HEARTBEAT"),
        right=("JOBS",),
    )
    shown = output.id_for(out)
    for one in page:
        made.add_row(
            output.plain(shown(one.id)),
            output.word(one.liveness) + (f"\n[yellow]{one.trouble}[/]" if one.trouble else ""),
            f"{output.plain(one.hostname)}:{one.pid}",
            output.plain(", ".join(one.queues)),
            f"{one.held}/{one.concurrency}",
            output.ago(one.heartbeat_at, now),
        )
    out.print(made)


workers = listing_group(
    "workers",
    "List worker processes, show, quiet, resume and stop them.",
    "List worker processes, those heard of last first.",
    lambda admin: admin.list_workers,
    _render_workers,
)


@workers.command()
@click.argument("id")
@as_json
@pass_target
def show(target: Target, id: str, as_json: bool) -> None:
    """Show what a worker runs now, and what it says of itself."""
    worker = target.admin.get_worker(id)
    output.emit(worker, as_json, lambda out: _render_one(out, worker, target.now()))


def _render_one(out: Console, worker: WorkerView, now: datetime) -> None:
    host = f"{output.plain(worker.hostname)}:{worker.pid}"
    out.print(f"{output.plain(worker.id)} on {host}: {output.word(worker.liveness)}{_told(worker)}", soft_wrap=True)
    if worker.trouble:
        out.print(f"[yellow]{worker.trouble}[/]")
    out.print(f"queues: {output.plain(', '.join(worker.queues))}", soft_wrap=True)
    out.print(f"jobs it knows: {output.plain(', '.join(worker.names)) or 'none'}", soft_wrap=True)
    counted = "" if worker.done is None else f", {worker.done:,} done, {worker.failed or 0:,} failed attempts"
    memory = "" if worker.memory is None else f", {worker.memory / 1e6:,.0f} MB"
    out.print(f"slots: {worker.held} of {worker.concurrency} in use{counted}{memory}", soft_wrap=True)
    started, heard = output.ago(worker.started_at, now), output.ago(worker.heartbeat_at, now)
    out.print(f"started {started}, heard of {heard}, sloppyjobs {output.plain(worker.version)}", soft_wrap=True)
    if worker.app_version is not None:
        out.print(f"application: {output.plain(worker.app_version)}", soft_wrap=True)
    if worker.jobs:
        made = output.table("RUNNING", "NAME", "QUEUE", "STARTED", whole=("RUNNING", "STARTED"))
        shown = output.id_for(out)
        for job in worker.jobs:
            made.add_row(
                shown(job.id), output.plain(job.name), output.plain(job.queue), output.ago(job.started_at, now)
            )
        out.print(made)


def _told(worker: WorkerView) -> str:
    """What it was told and has not done yet."""
    waits = worker.wanted is not None and worker.liveness in ("running", "quiet") and worker.wanted != worker.liveness
    return f", told to {'be quiet' if worker.wanted == 'quiet' else 'stop'}" if waits else ""


@workers.command()
@click.argument("id")
@signed
@as_json
@pass_target
def quiet(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a worker take no new jobs; what it runs finishes, and the process stays."""
    _say(target.admin.quiet_worker(id, actor=actor, reason=reason), "takes no new jobs", as_json)


@workers.command()
@click.argument("id")
@signed
@as_json
@pass_target
def resume(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a quiet worker take jobs again."""
    _say(target.admin.resume_worker(id, actor=actor, reason=reason), "takes jobs", as_json)


@workers.command()
@click.argument("id")
@signed
@as_json
@pass_target
def stop(target: Target, id: str, actor: str | None, reason: str | None, as_json: bool) -> None:
    """Let a worker drain as by SIGTERM, then end."""
    _say(target.admin.stop_worker(id, actor=actor, reason=reason), "begins to stop", as_json)


def _say(worker: WorkerView, what: str, as_json: bool) -> None:
    text = f"{output.plain(worker.id)} {what} within {worker.heartbeat_seconds:g} s"
    output.emit(worker, as_json, lambda out: out.print(text, soft_wrap=True))
